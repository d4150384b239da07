"""torch's own thread pool, as an address that the runtime can call."""

import ctypes
from functools import cache
from pathlib import Path

import torch

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@cache
def torch_parallel_for():
    """The address of `torch_parallel_for` in libtorch_cpu, or None.

    Its declaration in torch 2.11, torch/csrc/stable/c/shim.h:

        AOTITorchError torch_parallel_for(int64_t begin, int64_t end,
            int64_t grain_size, void (*)(int64_t begin, int64_t end, void*), void* ctx)

    altgrad_parallel_for has the same signature. One call
    over a single item, which torch runs in the calling thread, proves that the
    symbol behaves as declared; otherwise, and before torch 2.10, the answer is
    None and the runtime uses its own threads.
    """
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        function = ctypes.CDLL(str(path)).torch_parallel_for
    except (OSError, AttributeError):
        return None
    seen = []
    body = _BODY(lambda begin, end, context: seen.append((begin, end, context)))
    function.restype = ctypes.c_int32
    function.argtypes = (ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, _BODY, ctypes.c_void_p)
    status = function(3, 4, 1, body, 5)
    if status or seen != [(3, 4, 5)]:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value
