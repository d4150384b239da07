"""What one rank has of a tensor, in the words of torch.distributed.checkpoint: a run of its elements."""

from collections import OrderedDict
from math import prod

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.utils._pytree import tree_map_only

_COPIES = "detach", "clone", "_to_copy", "empty_like", "new_empty", "copy_"


class Run(torch.Tensor):
    """Elements `begin` and following of a tensor of shape `whole`, in row-major order; `local`, of one dimension, has them.

    It has the shape of the whole, and no operators but copies. torch.save writes a dict of plain values in its place.
    """

    @staticmethod
    def __new__(cls, local, whole, begin):
        self = torch.Tensor._make_wrapper_subclass(cls, torch.Size(whole), dtype=local.dtype, device=local.device)
        self.local, self.begin = local, begin
        return self

    def __repr__(self):
        return f"Run({self.begin}:{self.begin + self.local.numel()} of {tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ not in _COPIES:
            raise TypeError(f"altgrad.distributed: a state of this rank's part, of which other ranks have the rest, does "
                            f"not take {function}")
        first = next(arg for arg in args if isinstance(arg, Run))
        if function.overloadpacket.__name__ == "new_empty":  # asynchronous checkpoints make room so, of the same shape
            return Run(torch.empty_like(first.local, **kwargs), first.shape, first.begin)
        made = function(*tree_map_only(Run, lambda run: run.local, args),
                        **tree_map_only(Run, lambda run: run.local, kwargs or {}))
        return Run(made, first.shape, first.begin)

    def __reduce_ex__(self, protocol):
        said = ("run", self.local), ("whole", tuple(self.shape)), ("begin", self.begin)
        return OrderedDict, (said,)

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
