"""What a rank will need, before anything is made."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from .. import optim
from .._storage.blocks import min_sizes
from ._buckets import IN_FLIGHT, check_kind, grouped, bucket_layout, piggyback_words, take_reduce_dtype, way_of


@dataclass(frozen=True)
class Memory:
    """Bytes on one rank, of everything that altgrad.distributed.Sharded keeps; activations are not in it.

    Args:
        parameters: Of all parameters, which every rank has.
        gradients: Of the averaged gradients of its part.
        buckets: Of the buckets of gradients that fill or travel at a time.
        states: Of the states of its part.
    """

    parameters: int
    gradients: int
    buckets: int
    states: int

    @property
    def total(self) -> int:
        """Of all four."""
        return self.parameters + self.gradients + self.buckets + self.states

    def __str__(self) -> str:
        parts = [f"{getattr(self, name) / 1e6:,.1f} MB of {name}" for name in ("parameters", "gradients", "buckets", "states")]
        return f"{self.total / 1e6:,.1f} MB on each rank: {', '.join(parts)}"


def memory(kind: type[optim.Optimizer], params: ParamsT, ranks: int, *, bucket_bytes: int = 25 << 20,
           reduce_dtype: torch.dtype | None = None, order: str = "reversed", **words: Any) -> Memory:
    """The bytes that `Sharded(kind, params, ...)` takes on the fullest of `ranks` ranks, without activations.

    It needs no process group and makes no state but those of a few small tensors; parameters may be on the meta device.

    Args:
        kind: A class of altgrad.optim (not Muon).
        params: Parameters or param_groups.
        ranks: The number of ranks.
        bucket_bytes: As Sharded takes it.
        reduce_dtype: As Sharded takes it.
        order: As Sharded takes it.
        words: What the class takes besides.

    Raises:
        TypeError: `kind` is no class of altgrad.optim.
        ValueError: The class is Muon, `ranks` is less than 1, or `order` is no order.

    Example:
        >>> print(altgrad.distributed.memory(altgrad.optim.AdamW, model.parameters(), ranks=64))
    """
    check_kind("altgrad.distributed.memory", kind)
    reduce_dtype, words = take_reduce_dtype("altgrad.distributed.memory", reduce_dtype, words)
    if ranks < 1:
        raise ValueError(f"altgrad.distributed.memory: ranks is {ranks}; it takes at least one")
    way = way_of("altgrad.distributed.memory", order)
    if issubclass(kind, optim.Muon):
        raise ValueError(f"altgrad.distributed.memory: {kind.__name__} updates whole matrices, and no part of one can be "
                         "counted: give it a class that updates elements, such as altgrad.optim.AdamW")
    groups = torch.optim.SGD(params, lr=0.0).param_groups
    group_of = {param: index for index, of in enumerate(groups) for param in of["params"] if param.requires_grad}
    given = list(params) if isinstance(params, (list, tuple)) else []
    options = [of if isinstance(of, dict) else {} for of in given] if len(given) == len(groups) else [{}] * len(groups)
    rates, bounds, states, shares, whole, largest, piggyback = {}, {}, [0.0] * ranks, 0, 0, 0, 0
    for some in grouped(list(group_of)[::way], bucket_bytes):
        starts, size = bucket_layout(some, ranks)
        bytes_on_wire = (reduce_dtype or some[0].dtype).itemsize
        whole, shares = whole + size * ranks * some[0].itemsize, shares + size * bytes_on_wire
        largest = max(largest, size * ranks * bytes_on_wire)
        piggyback = piggyback_words(ranks, len(group_of)) * ranks * bytes_on_wire  # of the last one
        for param, start in zip(some, starts):
            index = group_of[param]
            if index not in bounds:
                bounds[index] = min_sizes(_made(kind, options[index], words, param.dtype)._storages()[0])
            key = index, param.dtype, _numel_like(param.numel(), bounds[index])
            if key not in rates:
                rates[key] = _bytes_per_element(kind, options[key[0]], words, key[1], reduce_dtype or key[1], key[2])
            for rank in range(start // size, min(ranks, -(-(start + param.numel()) // size))):
                states[rank] += rates[key] * (min(start + param.numel(), (rank + 1) * size) - max(start, rank * size))
    frozen = sum([param.nbytes for of in groups for param in of["params"] if not param.requires_grad])
    return Memory(whole + frozen, shares, largest * (1 + IN_FLIGHT) + piggyback, round(max(states)))


def _numel_like(numel, bounds):
    """The elements of a small tensor, of some blocks, whose states have blocks where those of one with `numel` elements have them."""
    least = max([bound for bound in bounds if bound <= numel], default=1)
    return max(least, min([8192, *[bound - 1 for bound in bounds if bound > numel]]))


def _made(kind, options, words, dtype, numel=1):
    param = torch.nn.Parameter(torch.ones(numel, dtype=dtype, device="cpu"))
    return kind([{**{key: value for key, value in options.items() if key != "param_names"}, "params": [param]}], **words)


def _bytes_per_element(kind, options, words, dtype, reduce_dtype, numel):
    """Of the states of a tensor, by those of a small one that makes a step."""
    optimizer = _made(kind, options, words, dtype, numel)
    param, = optimizer.param_groups[0]["params"]
    if reduce_dtype != dtype:
        param.grad_dtype = reduce_dtype
    param.grad = torch.ones_like(param, dtype=reduce_dtype)
    optimizer.step()
    return sum([value.nbytes for value in optimizer.state[param].values() if value.dim()]) / param.numel()
