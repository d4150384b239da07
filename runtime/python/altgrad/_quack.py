"""Symmetric products on a GPU by QuACK (github.com/Dao-AILab/quack), where it or torch's copy of it is installed."""

import logging
import os
from _thread import interrupt_main
from ctypes import CFUNCTYPE, POINTER, c_double, c_int32, c_int64, c_uint64, c_void_p, cast
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from ._binding import device_context
from ._library import library, struct

_log = logging.getLogger("altgrad.quack")

# altgrad_gemm; its strides are those of a matrix, a row and a column.
_Gemm = struct("Gemm", size=c_uint64, batch=c_int64, m=c_int64, n=c_int64, k=c_int64, a=c_void_p, b=c_void_p, d=c_void_p,
               c=c_void_p, of_a=c_int64 * 3, of_b=c_int64 * 3, of_c=c_int64 * 2, alpha=c_double, beta=c_double, type=c_int32,
               device=c_int32)


def offer_quack():
    """Has the runtime measure QuACK's products beside the others, where those are measured."""
    if os.environ.get("ALTGRAD_CUDA_PRODUCTS") == "auto" and os.environ.get("ALTGRAD_QUACK") != "0" and _installed():
        library().altgrad_set_symmetric_gemm(cast(_multiply, c_void_p), None, _installed()[1].encode())


def _installed():
    """Which package is QuACK, and what says its version; None where there is none."""
    try:
        return "quack", f"quack {version('quack-kernels')}"
    except PackageNotFoundError:
        copy = "torch._vendor.quack"
        return (copy, f"torch {torch.__version__}") if all(map(find_spec, ("cutlass", "torch._vendor", copy))) else None


@cache
def _function(device):
    """QuACK's function on this GPU; None where its kernels are for newer ones."""
    if torch.cuda.get_device_capability(device) < (9, 0):
        return None
    return import_module(f"{_installed()[0]}.gemm_interface").gemm_symmetric


@CFUNCTYPE(c_int32, POINTER(_Gemm), c_void_p)
def _multiply(gemm, _):
    """An altgrad_multiply: 0 where QuACK has multiplied, and 1 where the runtime has to do it."""
    try:
        # Who asks torch for equal bits has no use for what a measurement chose.
        function = None if torch.are_deterministic_algorithms_enabled() else _function(gemm.contents.device)
        if function:
            _call(function, gemm.contents)
            return 0
    except KeyboardInterrupt:
        interrupt_main()
    except Exception as error:
        library().altgrad_set_symmetric_gemm(None, None, None)
        _log.warning("QuACK does no more products in this process, and cuBLAS does them: %r", error)
    return 1


def _call(function, of):
    one, dtype = of.batch == 1, (torch.bfloat16, torch.float16)[of.type]

    def view(data, rows, columns, strides):
        sizes, strides = (of.batch, rows, columns)[one:], (*strides, 1)[one:3]
        extent = 1 + sum([(size - 1) * stride for size, stride in zip(sizes, strides)])
        tensor = torch.empty(0, dtype=dtype, device=torch.device(device_context.cuda_stand_in or "cuda", of.device))
        memory = torch._C._construct_storage_from_data_pointer(data, tensor.device, extent * dtype.itemsize)
        return tensor.set_(memory, 0, sizes, strides)

    added = {"C": view(of.d, of.m, of.n, of.of_c), "beta": of.beta} if of.d else {}
    function(view(of.a, of.m, of.k, of.of_a), view(of.b, of.k, of.n, of.of_b), out=view(of.c, of.m, of.n, of.of_c),
             alpha=of.alpha, **added)
