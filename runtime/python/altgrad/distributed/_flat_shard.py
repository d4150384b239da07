"""What one rank has of a tensor, in the words of torch.distributed.checkpoint: a run of its elements."""

from collections import OrderedDict
from math import prod

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.utils._pytree import tree_map_only

from .._warn import warn

_COPIES = "detach", "clone", "_to_copy", "empty_like", "new_empty", "copy_"


_warned = set()


def warn_of_part(rank, ranks):
    """Warns once, where what the first of several ranks has of the states is saved: some trainers save there alone."""
    if rank == 0 and ranks > 1 and not _warned:
        _warned.add(rank)
        warn(f"altgrad.distributed: this file has only the states of rank 0's part, of {ranks} ranks: if the other ranks do "
             "not save theirs, call optimizer.consolidate_state_dict() on every rank first, and it has all of them")


class PartOf(tuple):
    """(rank, ranks) in the state_dict of a rank's part."""

    def __reduce_ex__(self, protocol):
        warn_of_part(*self)
        return torch.Size, (tuple(self),)  # which torch.load reads without the classes of others

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


class FlatShard(torch.Tensor):
    """Elements `begin` and following of a tensor of shape `whole`, in row-major order; `local`, of one dimension, has
    them.

    It has the shape of the whole, and no operators but copies. torch.save writes a dict of plain values in its place.
    """

    @staticmethod
    def __new__(cls, local, whole, begin):
        self = torch.Tensor._make_wrapper_subclass(cls, torch.Size(whole), dtype=local.dtype, device=local.device)
        self.local, self.begin = local, begin
        return self

    def __repr__(self):
        return f"FlatShard({self.begin}:{self.begin + self.local.numel()} of {tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ not in _COPIES:
            raise TypeError(f"altgrad.distributed: a state of this rank's part, of which other ranks have the rest, does "
                            f"not take {function}")
        first = next(arg for arg in args if isinstance(arg, FlatShard))
        if function.overloadpacket.__name__ == "new_empty":  # asynchronous checkpoints make room so, of the same shape
            return FlatShard(torch.empty_like(first.local, **kwargs), first.shape, first.begin)
        made = function(*tree_map_only(FlatShard, lambda run: run.local, args),
                        **tree_map_only(FlatShard, lambda run: run.local, kwargs or {}))
        return FlatShard(made, first.shape, first.begin)

    def as_entry(self):
        """What a file has in its place."""
        return OrderedDict([("run", self.local), ("whole", tuple(self.shape)), ("begin", self.begin)])

    def __reduce_ex__(self, protocol):
        warn_of_part(*(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1))
        return OrderedDict, (tuple(self.as_entry().items()),)

    def __deepcopy__(self, memo):
        return self.clone()

    # torch.distributed.checkpoint asks these.

    def __create_write_items__(self, fqn, _):
        properties = TensorProperties.create_from_tensor(self.local)
        return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.SHARD, tensor_data=TensorWriteData(
            chunk, properties, self.shape)) for chunk in self.__create_chunk_list__()]

    def __create_chunk_list__(self):
        return [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes in self._boxes()]

    def __get_tensor_shard__(self, index):
        at = 0
        for offsets, sizes in self._boxes():
            if index.offset is None or torch.Size(offsets) == index.offset:
                return self.local[at:at + prod(sizes)].view(sizes)
            at += prod(sizes)
        raise ValueError(f"no part of this rank begins at {tuple(index.offset)}")

    def _boxes(self):
        return boxes(tuple(self.shape), self.begin, self.begin + self.local.numel())


def boxes(shape, begin, end):
    """(offsets, sizes) of the boxes that elements begin to end, in row-major order, consist of; in that order."""
    if begin >= end:
        return []
    if len(shape) == 1:
        return [((begin,), (end - begin,))]
    row = prod(shape[1:])
    first, last = -(-begin // row), end // row
    within = lambda at, start, stop: [((at, *offsets), (1, *sizes)) for offsets, sizes in boxes(
        shape[1:], start - at * row, stop - at * row)]
    if first > last:
        return within(last, begin, end)
    whole = [((first, *(0 for _ in shape[1:])), (last - first, *shape[1:]))] if first < last else []
    return within(first - 1, begin, first * row) + whole + within(last, last * row, end)
