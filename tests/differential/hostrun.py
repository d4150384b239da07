"""Runs a bundle's host code through the C ABI on a Memory."""

import ctypes
import functools
import math

import numpy as np

import program


class Failed(Exception):
    """The runtime said no; the words are its own."""


@functools.cache
def runs(level):
    """Whether this CPU has the level, as Linux tells it."""
    with open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    return level != "v4" or {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)


def _library():
    library = ctypes.CDLL(program.LIBRARY)
    library.altgrad_last_error.restype = ctypes.c_char_p
    library.altgrad_bundle_free.restype = library.altgrad_plan_free.restype = None
    return library


class Tensor(ctypes.Structure):
    """altgrad_tensor of altgrad.h."""

    _fields_ = [("size", ctypes.c_uint64)] + [
        (name, ctypes.c_int64)
        for name in ("numel", "offset", "rows", "columns", "group", "set", "tag", "units", "whole")]


def tensors(rows):
    """The array that bind_tensors takes."""
    numel = np.bincount(rows.tensor, rows.numel, len(rows.numel)).astype(int)
    each = [(n, *row) for first, n, *row in zip(map(rows.begins, range(len(numel))), numel.tolist(), rows.offset,
                                                map(rows.extents, range(len(numel))), rows.group, rows.set, rows.tag) if first]
    return (Tensor * len(each))(*(Tensor(ctypes.sizeof(Tensor), n, o, *shape[:2], g, s, tag, 0, math.prod(shape))
                                  for n, o, shape, g, s, tag in each))


class HostPlan:
    def __init__(self, compiled, level, threads=1):
        self.lib = _library()
        self.bundle, self.plan = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("load", compiled.path.encode(), ctypes.byref(self.bundle))
        self._call("plan_create", self.bundle, f"cpu:{level}".encode(), ctypes.byref(self.plan))
        self._call("set_threads", self.plan, ctypes.c_int32(threads))
        self.manifest = compiled.manifest

    def _call(self, name, *arguments):
        if getattr(self.lib, "altgrad_" + name)(*arguments):
            raise Failed(f"altgrad_{name}: {self.lib.altgrad_last_error().decode()}")

    def bind(self, memory):
        rows = memory.rows
        declared = tensors(rows)
        self._call("bind_tensors", self.plan, declared, ctypes.c_int64(len(declared)),
                   ctypes.c_int64(max(rows.group) + 1))
        for stream in self.manifest["streams"]:
            buffer = memory.streams[stream["name"]]
            self._pointers("stream", stream["name"],
                           [int(buffer.address(r)) for r in rows.firsts(stream["set"])])
        for scalar in self.manifest["scalars"]:
            array = memory.scalars[scalar["name"]]
            places = rows.firsts(scalar["set"]) if scalar["scope"] in ("tensor", "unit") else range(len(array))
            self._pointers("scalar", scalar["name"],
                           [array.ctypes.data + int(i) * array.strides[0] for i in places])
        size = ctypes.c_uint64()
        self._call("workspace", self.plan, ctypes.byref(size))
        self.size = size.value
        raw = np.empty(self.size + 128, np.uint8)
        self.workspace = raw[-raw.ctypes.data % 64:]

    def _pointers(self, kind, name, addresses):
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        self._call("bind_" + kind, self.plan, name.encode(), table,
                   ctypes.c_int64(len(addresses)))

    def run(self, memory):
        self.bind(memory)
        self.workspace[:] = 0xA5  # nothing may rely on what an earlier run left
        self._call("run", self.plan, _at(self.workspace), ctypes.c_uint64(self.size),
                   ctypes.c_int64(0), ctypes.c_int64(-1), None)
        if (self.workspace[self.size:] != 0xA5).any():
            raise Failed("the run wrote behind its workspace")

    def __del__(self):
        if getattr(self, "plan", None):
            self.lib.altgrad_plan_free(self.plan)
        if getattr(self, "bundle", None):
            self.lib.altgrad_bundle_free(self.bundle)


def _at(array):
    return ctypes.c_void_p(array.ctypes.data)
