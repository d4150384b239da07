"""Puts a function in the place of torch's products of matrices."""

import ctypes

from altgrad._core import core
from altgrad._library import library

KIND = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p)


class Products:
    """While it is entered, `call(gemm, context)` multiplies; `gemm` has the words of altgrad_gemm."""

    def __init__(self, call=None):
        self._torchs = ctypes.cast(core().altgrad_core_multiply, ctypes.c_void_p)
        self.multiply, self._function = ctypes.cast(self._torchs, KIND), KIND(call or self.call)

    def call(self, gemm, context):
        return self.multiply(gemm, context)  # torch's

    def __enter__(self):
        library().altgrad_set_gemm(None, ctypes.cast(self._function, ctypes.c_void_p), None)
        return self

    def __exit__(self, *_):
        library().altgrad_set_gemm(None, self._torchs, None)


def spoil(gemm):
    """Puts a NaN into the first element of a product of bfloat16, where no operand has one."""
    ctypes.cast(gemm[8], ctypes.POINTER(ctypes.c_uint16))[0] = 0x7FC0  # a quiet NaN, in c
