"""Memory for tables on GPUs, from torch's allocator: where a card is full it frees what it holds and tries again."""

import ctypes
from functools import cache

import torch

from .._library import library

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@cache
def use_torch_memory(kind):
    """Gives the runtime the allocator of torch's devices of this type, such as "cuda"."""
    devices = torch.get_device_module(kind)

    @_ALLOCATE
    def allocate(device, size, stream, _):
        try:
            return devices.caching_allocator_alloc(size, device, stream)
        except RuntimeError:  # there is none
            return None

    @_RELEASE
    def release(memory, _):
        devices.caching_allocator_delete(memory)

    library().altgrad_set_cuda_memory(allocate, release, None)
    return allocate, release  # which the runtime calls from now on
