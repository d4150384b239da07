"""Flat buffers of parameters and gradients, of which each rank has a part of its own."""

from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from .._binding.rank_sets import exchange
from .._binding.shards import ShardLocation
from .._core import chunk
from .._warn import renamed
from ..optim import Optimizer

_ALIGNED = 256
# Buckets that travel at a time.
IN_FLIGHT = 2


class PendingBucket:
    """Gradients whose average is on its way: `_pending` is None or (work, what arrives, what is read meanwhile)."""

    def is_here(self, place):
        """Whether this rank steps a parameter, or a part of it."""
        return True

    replicas = None  # the ranks that have the same part, of groups each of which has all parts

    def share(self):
        """Gives every rank the first one's parameters."""
        for group in (self.replicas, self.group) if self.replicas else (self.group,):
            dist.broadcast(self.flat, dist.get_global_rank(group, 0), group=group)

    def is_still(self, place):
        """Whether a parameter lies where it was laid."""
        return layout_of(self.params[place]) == self._laid[place]

    def follow(self, place):
        """Lays a parameter again whose memory is another one and alike, if it can; whether it did."""
        return False

    def wait(self):
        """Adds what arrives to the sum of earlier backward passes; whether anything came."""
        if not self._pending:
            return False
        work, part, _ = self._pending
        with exchange("the average of gradients"):
            work.wait()
            if self.replicas:
                dist.all_reduce(self.came, group=self.replicas)
        self.sum = part if self.sum is None else self.sum.add_(part)
        self._pending = None
        return True


@dataclass
class Bucket(PendingBucket):
    """Parameters of one dtype on one device, one behind the other in `flat`; `own` is what this rank steps of them.

    `reduce_dtype` is the dtype in which gradients travel; what `came` of them is added up over `replicas`, too. `seen` are the places of those whose gradients are in
    `grads`, which has a row for each rank's part. Behind each part are `words` numbers, 0 unless `piggyback` sets them:
    their averages come as `piggybacked`.
    """

    params: list
    starts: list
    flat: torch.Tensor
    own: slice
    group: dist.ProcessGroup
    reduce_dtype: torch.dtype
    grads: torch.Tensor | None = None
    seen: set = field(default_factory=set)
    sum: torch.Tensor | None = None
    words: int = 0
    piggybacked: torch.Tensor | None = None
    replicas: dist.ProcessGroup | None = None
    came: torch.Tensor | None = None
    _pending: tuple | None = None

    def __post_init__(self):
        self._laid, self._size = list(map(layout_of, self.params)), self.own.stop - self.own.start

    def follow(self, place):
        # Accelerate moves a model on the CPU to cpu:0, which copies it, when the optimizer is made already.
        param, start = self.params[place], self.starts[place]
        if layout_of(param, moves=True)[1:] != self._laid[place][1:]:
            return False
        laid = self.flat[start:start + param.numel()].view(param.shape)
        param.data = laid.copy_(param.data)
        return True

    def take(self, place):
        """Takes a gradient that is complete, and lets go of it."""
        param, start, size = self.params[place], self.starts[place], self._size
        end, rows = start + param.numel(), self._rows()
        first, last = start // size, (end - 1) // size
        if first == last:
            rows[first, start - first * size:end - first * size].view(param.shape).copy_(param.grad)
        else:  # of nothing last < first
            flat = param.grad.reshape(-1)
            for rank in range(first, last + 1):
                begin, stop = max(start, rank * size), min(end, (rank + 1) * size)
                rows[rank, begin - rank * size:stop - rank * size] = flat[begin - start:stop - start]
        param.grad = None
        self.seen.add(place)

    def _rows(self):
        if self.grads is None:
            self.grads = torch.zeros(dist.get_world_size(self.group), self._size + self.words, dtype=self.reduce_dtype,
                                     device=self.flat.device)
        return self.grads

    def piggyback(self, numbers):
        """Has numbers travel with the gradients: every rank finds the averages of all ranks in `piggybacked`."""
        self._rows()[:, self._size:self._size + len(numbers)] = torch.tensor(numbers, dtype=self.reduce_dtype, device="cpu")

    def is_full(self):
        return len(self.seen) == len(self.params)

    def send(self):
        """Begins to add up what the ranks have, of which each gets its part. Nothing is on its way."""
        rows = self._rows()
        rows /= dist.get_world_size(self.group) * (dist.get_world_size(self.replicas) if self.replicas else 1)
        self.came = part = torch.empty(self._size + self.words, dtype=self.reduce_dtype, device=self.flat.device)
        work = dist.reduce_scatter_tensor(part, rows.view(-1), group=self.group, async_op=True)
        # Until it is done, the gradients are read.
        self._pending, self.grads, self.seen = (work, part[:self._size], rows), None, set()
        self.piggybacked = part[self._size:]

    def clear(self):
        self.wait()
        self.grads, self.seen, self.sum, self.piggybacked, self.came = None, set(), None, None, None

    def gather(self):
        """Begins to give every rank the parts of all."""
        part = self.flat[self.own]
        part = part.clone() if part.device.type == "cpu" else part
        return dist.all_gather_into_tensor(self.flat, part, group=self.group, async_op=True)

    def range_of(self, place):
        """(begin, end) in `flat` of what this rank steps of a parameter; empty where that is nothing."""
        start = self.starts[place]
        begin, end = max(start, self.own.start), min(start + self.params[place].numel(), self.own.stop)
        return (begin, end) if begin < end else (self.own.start, self.own.start)

    def part_of(self, place):
        """A parameter of its own for what this rank steps of one, in the memory of `flat`."""
        begin, end = self.range_of(place)
        part, shape = torch.nn.Parameter(self.flat[begin:end]), tuple(self.params[place].shape)
        part.altgrad_shard_location = ShardLocation(shape, begin - self.starts[place] if begin < end else 0, True, chunk())
        if self.reduce_dtype != part.dtype:
            part.grad_dtype = self.reduce_dtype
        return part

    def grad_of(self, place):
        begin, end = self.range_of(place)
        return self.sum[begin - self.own.start:end - self.own.start]


def piggyback_words(ranks, params):
    """The words behind each rank's part of the last bucket: one for each rank, one for each parameter, and one for all of them."""
    return -(-(ranks + 1 + params) // _ALIGNED) * _ALIGNED


def layout_of(tensor, moves=False):
    """Where a tensor lies, unless it `moves` with its owner, and how."""
    address = 0 if moves or not tensor.numel() else tensor.data_ptr()
    return address, tensor.dtype, tensor.device, tensor.shape, tensor.stride()


def check_kind(owner, kind):
    """Raises TypeError for what is no class of altgrad.optim."""
    if not (isinstance(kind, type) and issubclass(kind, Optimizer)):
        raise TypeError(f"{owner}: kind is {kind!r}; it takes a class of altgrad.optim, such as altgrad.optim.AdamW")


def way_of(owner, order):
    """The step through the parameters in which their gradients are expected. Raises ValueError for no `order`."""
    ways = {"reversed": -1, "given": 1}
    if order not in ways:
        raise ValueError(f"{owner}: order is {order!r}, none of " + ", ".join(map(repr, ways)))
    return ways[order]


def grouped(params, most):
    """Lists of parameters, which are in the order of backward, for buckets of up to `most` bytes."""
    kinds, made = {}, []
    for param in params:
        kinds.setdefault((param.device, param.dtype), []).append(param)
    for every in kinds.values():
        size = most + 1  # so that the first opens a bucket, even without elements
        for param in every:
            if size + param.nbytes > most:
                made.append([])
                size = 0
            made[-1].append(param)
            size += param.nbytes
    return made


def bucket_layout(params, ranks):
    """(where each parameter begins, elements of a rank's part) in the bucket of some parameters.

    Parts are cut between chunks, in which a step sums, of every parameter.
    """
    starts, end, size = [], 0, chunk()
    for param in params:
        end = -(-end // _ALIGNED) * _ALIGNED
        # No cut goes through a small one, and those of a large one are between its chunks.
        if param.numel() >= size or end // size != (end + max(1, param.numel()) - 1) // size:
            end = -(-end // size) * size
        starts.append(end)
        end += param.numel()
    return starts, max(1, -(-end // (size * ranks))) * size


def take_reduce_dtype(owner, reduce_dtype, words):
    """(the dtype in which gradients travel, the other words): `wire` is its old name."""
    if "wire" in words:
        given = {} if reduce_dtype is None else {"reduce_dtype": reduce_dtype}
        words = renamed(owner, {**words, **given}, {"wire": "reduce_dtype"})
        reduce_dtype = words.pop("reduce_dtype")
    return reduce_dtype, words


@torch.no_grad()
def make_buckets(params, group, most, reduce_dtype, replicas=None):
    """Buckets of up to `most` bytes, which become the memory of the parameters; these are in the order of backward."""
    rank, world, made = dist.get_rank(group), dist.get_world_size(group), []
    for some in grouped(params, most):
        starts, size = bucket_layout(some, world)
        flat = torch.zeros(size * world, dtype=some[0].dtype, device=some[0].device)
        for param, start in zip(some, starts):
            flat[start:start + param.numel()].view(param.shape).copy_(param)
            param.data = flat[start:start + param.numel()].view(param.shape)
        made.append(Bucket(some, starts, flat, slice(rank * size, (rank + 1) * size), group, reduce_dtype or flat.dtype,
                           replicas=replicas))
    return made
