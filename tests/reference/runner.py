"""Compiles a step with altgrad-opt and runs it on NumPy arrays through the C ABI, for tests."""

import ctypes
import json
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ALTGRAD_BUILD", ROOT / "build"))
COMPILER = BUILD / "bin" / "altgrad-opt"
LIBRARY = BUILD / "lib" / "libaltgrad.so"

DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i1": np.uint8}
UNAVAILABLE = 4


class Tensor(ctypes.Structure):
    """altgrad_tensor of altgrad.h."""

    _fields_ = [("size", ctypes.c_uint64)] + [
        (name, ctypes.c_int64)
        for name in ("numel", "offset", "rows", "columns", "group", "set", "tag")]


class Refused(Exception):
    """The compiler or the runtime said no; the words are its own."""

    def __init__(self, words, status=None):
        super().__init__(words)
        self.status = status


def compile_rule(rule, options, storage, out, targets="x86-64-v3,x86-64-v4", *more):
    """altgrad-opt --rule=NAME{options} ... --emit=bundle -o out"""
    chosen = "{" + ",".join(sorted(k for k, on in options.items() if on)) + "}"
    command = [COMPILER, f"--rule={rule}{chosen if any(options.values()) else ''}",
               f"--rule-path={ROOT / 'templates'}", f"--storage={storage}",
               f"--target={targets}", "--emit=bundle", "-o", out, *more]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))}\n{done.stderr[:2000]}")
    return out


def load_library():
    """libaltgrad with the signatures that the tests use."""
    lib = ctypes.CDLL(str(LIBRARY))
    p, i64, u64, s = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_char_p
    lib.altgrad_last_error.restype = lib.altgrad_manifest.restype = s
    signatures = {"altgrad_load": [s, p], "altgrad_manifest": [p], "altgrad_bundle_free": [p],
                  "altgrad_plan_create": [p, s, p], "altgrad_plan_free": [p],
                  "altgrad_bind_tensors": [p, p, i64, i64],
                  "altgrad_bind_stream": [p, s, p, i64], "altgrad_bind_scalar": [p, s, p, i64],
                  "altgrad_workspace": [p, p], "altgrad_set_threads": [p, ctypes.c_int32],
                  "altgrad_set_gemm": [p, p, p], "altgrad_run": [p, p, u64, i64, i64, p]}
    for name, arguments in signatures.items():
        getattr(lib, name).argtypes = arguments
    lib.altgrad_bundle_free.restype = lib.altgrad_plan_free.restype = None
    return lib


class Runner:
    """A bundle bound to NumPy arrays on one host level ("cpu", "cpu:v3", "cpu:v4")."""

    def __init__(self, path, device="cpu", threads=1):
        self.lib = load_library()
        self.bundle, self.plan = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("load", str(path).encode(), ctypes.byref(self.bundle))
        self.manifest = json.loads(self.lib.altgrad_manifest(self.bundle))
        self._call("plan_create", self.bundle, device.encode(), ctypes.byref(self.plan))
        self._call("set_threads", self.plan, threads)

    def _call(self, name, *arguments):
        status = getattr(self.lib, "altgrad_" + name)(*arguments)
        if status:
            raise Refused(f"altgrad_{name}: {self.lib.altgrad_last_error().decode()}", status)

    def bind(self, tensors, scalars=None, groups=None):
        """`tensors`: per tensor a dict of arrays by stream; `scalars`: lists of values by name.

        Scalars left out start at the default of the rule, or at 0. They become
        one-element arrays in self.scalars, which the program reads and writes.
        """
        groups = [0] * len(tensors) if groups is None else groups
        count = {"step": 1, "group": max(groups) + 1, "tensor": len(tensors)}
        first = self.manifest["streams"][0]["name"]
        rows = [Tensor(ctypes.sizeof(Tensor), t[first].size, 0, *(t[first].shape if t[first].ndim == 2 else (0, 0)),
                       group, 0, -1)
                for t, group in zip(tensors, groups)]
        self._call("bind_tensors", self.plan, (Tensor * len(rows))(*rows), len(rows),
                   count["group"])
        for stream in self.manifest["streams"]:
            arrays = [t[stream["name"]] for t in tensors]
            if any(8 * a.itemsize != stream["bits"] or not a.flags.c_contiguous for a in arrays):
                raise TypeError(f"{stream['name']}: wants contiguous {stream['format']} arrays")
            self._bind("stream", stream["name"], arrays)
        self.scalars = {}
        for scalar in self.manifest["scalars"]:
            n = count[scalar["scope"]]
            values = (scalars or {}).get(scalar["name"], [scalar["default"] or 0] * n)
            if len(values) != n:
                raise ValueError(f"{scalar['name']}: {len(values)} values, not {n}")
            arrays = [np.array([v], DTYPES[scalar["type"]]) for v in values]
            self.scalars[scalar["name"]] = arrays
            self._bind("scalar", scalar["name"], arrays)
        size = ctypes.c_uint64()
        self._call("workspace", self.plan, ctypes.byref(size))
        self.size = size.value
        raw = np.empty(self.size + 64, np.uint8)
        self.workspace = raw[-raw.ctypes.data % 64:]
        self.tensors = tensors  # keeps the memory alive

    def _bind(self, kind, name, arrays):
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        self._call("bind_" + kind, self.plan, name.encode(), pointers, len(arrays))

    def step(self):
        self.workspace[:self.size] = 0xA5  # a run may not rely on what the last one left
        self._call("run", self.plan, self.workspace.ctypes.data, self.size, 0, -1, None)

    def __del__(self):
        if getattr(self, "plan", None):
            self.lib.altgrad_plan_free(self.plan)
        if getattr(self, "bundle", None):
            self.lib.altgrad_bundle_free(self.bundle)
