"""Parameters that one rank steps as a whole, each by its owner: what multiplies matrices needs all of them."""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from .._binding.layout import matrix_of
from .._binding.shards import absent
from ._buckets import PendingBucket, layout_of


@dataclass
class OwnedParameter(PendingBucket):
    """One parameter, in the interface of a Bucket: its gradient goes to the rank `owner`, which sends the result."""

    params: list
    owner: int
    group: dist.ProcessGroup
    reduce_dtype: torch.dtype
    grads: torch.Tensor | None = None
    sum: torch.Tensor | None = None
    _pending: tuple | None = None
    reproducible: bool = False

    def __post_init__(self):
        self._laid = list(map(layout_of, self.params))

    @property
    def flat(self):
        return self.params[0].data

    def take(self, place):
        param = self.params[place]
        self.grads, param.grad = param.grad.to(self.reduce_dtype), None

    def is_full(self):
        return self.grads is not None

    def send(self):
        mine = torch.zeros_like(self.flat, dtype=self.reduce_dtype) if self.grads is None else self.grads
        mine = mine / dist.get_world_size(self.group)
        work = dist.reduce(mine, dist.get_global_rank(self.group, self.owner), group=self.group, async_op=True)
        self._pending, self.grads = (work, mine, None), None

    def wait(self):
        """On other ranks than the owner what is left is no sum, and its memory goes."""
        if self._is_owned():
            return super().wait()
        self.sum = None if self._pending else self.sum
        if came := super().wait():
            self.sum = self.sum.new_empty(0)
        return came

    def clear(self):
        self.wait()
        self.grads = self.sum = None

    def gather(self):
        return dist.broadcast(self.flat, dist.get_global_rank(self.group, self.owner), group=self.group, async_op=True)

    def part_of(self, place):
        """A parameter of its own in the memory of this one, whose `grad` is the average; on other ranks without memory."""
        if not self._is_owned():
            return absent(self.params[place], self.reduce_dtype) if self.reproducible else remote_parameter(self.params[place])
        part = torch.nn.Parameter(self.flat)
        part.grad_dtype = self.reduce_dtype
        return part

    def is_here(self, place):
        return self._is_owned()

    def grad_of(self, place):
        return self.sum if self.reproducible or self._is_owned() else None

    def _is_owned(self):
        return dist.get_rank(self.group) == self.owner


def remote_parameter(param):
    """A parameter in the place of one that this rank does not step: of its shape and device, in the memory of one number."""
    one = torch.empty((), dtype=param.dtype, device=param.device)
    return torch.nn.Parameter(one.expand(param.shape), param.requires_grad)


def owners_of(costs, group):
    """The rank that owns each parameter; the dearest is given away first, to the idlest rank."""
    busy, owners = [0.0] * dist.get_world_size(group), [0] * len(costs)
    for index in sorted(range(len(costs)), key=lambda index: (-costs[index], index)):
        owners[index] = busy.index(min(busy))
        busy[owners[index]] += costs[index]
    return owners


def make_owned(params, costs, group, reduce_dtype, reproducible):
    """One OwnedParameter for each parameter."""
    return [OwnedParameter([param], owner, group, reduce_dtype or param.dtype, reproducible=reproducible)
            for param, owner in zip(params, owners_of(costs, group))]


def cost_of(param, group):
    """About how many products a step takes: those of five Newton-Schulz steps, or some for each element."""
    if not group.get("use_muon", True):
        return 16.0 * param.numel()
    rows, columns = matrix_of(param.shape)
    return 5.0 * param.numel() * (4 * min(rows, columns) + 2 * min(rows, columns) ** 2 / max(1, rows, columns))
