"""Which lists of tensors a kernel takes, and where their elements lie."""

import ctypes
from array import array
from dataclasses import dataclass, field
from operator import attrgetter

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from .._binding.layout import PARAM_DTYPES, PLAIN, check_extent, check_mode, find_overlapping, in_order, is_dense
from .._binding.device_context import is_known
from .._core import core

_CODES = {dtype: code for code, dtype in enumerate(PARAM_DTYPES)}
_dtype, _device, _layout = attrgetter("dtype"), attrgetter("device"), attrgetter("layout")
_data_ptr, _numel, _is_neg = torch.Tensor.data_ptr, torch.Tensor.numel, torch.Tensor.is_neg
_is_contiguous, _is_inference = torch.Tensor.is_contiguous, torch.Tensor.is_inference


@dataclass(slots=True)
class TensorList:
    """A list of tensors on one `device`: of each the place of its dtype in PARAM_DTYPES,
    its elements and its address, as bytes; `staged` are (tensor, dense copy). All lie within
    their storages."""

    device: torch.device
    kinds: bytes
    numels: bytes
    pointers: bytes
    staged: list = field(default_factory=list)


def tensor_list(tensors, written, order=None):
    """The TensorList of tensors, which are not none; None where torch has to do it.

    `written`: the kernel changes the tensors, so no two may share memory. `order`: tensors in
    the order of whose elements these are read. Raises what torch raises if a tensor must not be written, or if elements
    lie beyond the end of a storage.
    """
    if not set(map(type, tensors)) <= PLAIN:
        return None
    if _is_plain(tensors[0]) and (found := _by_library(tensors, written)):
        return found
    devices = set(map(_device, tensors))
    if len(devices) > 1 or set(map(_layout, tensors)) != {torch.strided}:
        return None
    device, = devices
    dtypes = list(map(_dtype, tensors))
    if any(map(is_functorch_wrapped_tensor, tensors)) or not is_known(device) or not _CODES.keys() >= set(dtypes):
        return None
    if written and any(map(_is_inference, tensors)):
        for tensor in tensors:
            check_mode(tensor)
    # Before torch is asked to do it: that would write beyond a storage, too.
    for tensor in tensors:
        check_extent(tensor)
    staged, read = [], tensors
    # A negative view in place: whatever is done there is done to either sign.
    if not all(map(_is_contiguous, tensors)) or (order and any(map(_is_neg, tensors))):
        read = [_dense(tensor, like) for tensor, like in zip(tensors, order or tensors)]
        staged = [pair for pair in zip(tensors, read) if pair[0] is not pair[1]]
    numels = array("q", map(_numel, tensors))
    pointers = array("Q", map(_data_ptr, read))
    if pointers.count(0) != numels.count(0):
        return None  # zeros without memory
    if written and (staged or _may_overlap(tensors, pointers)) and find_overlapping(tensors):
        return None
    return TensorList(device, bytes(map(_CODES.__getitem__, dtypes)), numels.tobytes(),
                      pointers.tobytes(), staged)


def _is_plain(tensor):
    """Whether it is a strided tensor in memory of its own, that autograd knows, on a device of kernels."""
    return (tensor.layout == torch.strided and not tensor.is_nested and not is_functorch_wrapped_tensor(tensor)
            and not tensor.is_neg() and not tensor._is_zerotensor() and not tensor.is_inference() and is_known(tensor.device))


def _by_library(tensors, written):
    """The TensorList, without a call of torch for each tensor; None where one is not as the first or not plain."""
    count, taken = len(tensors), ctypes.c_int32()
    # The numels, the pointers, the kinds.
    words = array("B", bytes(17 * count))
    begin = words.buffer_info()[0]
    core().altgrad_core_list(id(tensors), count, written, begin + 16 * count, begin, begin + 8 * count, ctypes.byref(taken))
    if not taken.value:
        return None
    whole = words.tobytes()
    return TensorList(tensors[0].device, whole[16 * count:], whole[:8 * count], whole[8 * count:16 * count])


def _dense(tensor, like):
    """`tensor`, or a copy of it whose elements lie in a row."""
    if like is not tensor:
        return in_order(tensor, like.stride())
    return tensor if is_dense(tensor) or tensor.numel() == 0 else tensor.contiguous().resolve_neg()


def _may_overlap(tensors, pointers):
    """Whether the bytes from one tensor's begin to its end reach another's."""
    spans = sorted(zip(pointers, [tensor.nbytes for tensor in tensors]))
    end = 0
    for begin, size in spans:
        if begin < end and size:
            return True
        end = max(end, begin + size)
    return False

