"""Puts a function in the place of torch's products of matrices."""

import ctypes

import numpy
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


class Doubles(Products):
    """Products in float64: torch's bits depend on where a matrix lies, and on how many there are at once."""

    def call(self, gemm, context):
        batch, m, n, k, a, b, _, c, a_matrix, a_row, a_column, b_matrix, b_row, b_column, c_matrix, c_row = gemm[1:17]
        for i in range(batch):
            left, right = _floats(a, i * a_matrix, (m, k), (a_row, a_column)), _floats(b, i * b_matrix, (k, n), (b_row, b_column))
            with numpy.errstate(invalid="ignore"):  # of infinities
                _floats(c, i * c_matrix, (m, n), (c_row, 1))[:] = left.astype(float) @ right.astype(float)
        return 0


def _floats(address, first, shape, strides):
    count = first + sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
    return numpy.ndarray(shape, numpy.float32, (ctypes.c_float * count).from_address(address), 4 * first, [4 * of for of in strides])


def spoil(gemm):
    """Puts a NaN into the first element of a product of bfloat16, where no operand has one."""
    ctypes.cast(gemm[8], ctypes.POINTER(ctypes.c_uint16))[0] = 0x7FC0  # a quiet NaN, in c
