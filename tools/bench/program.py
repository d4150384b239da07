"""A bundle bound to torch tensors through the C ABI, on any device: what the benchmark and the device tests run."""

import ctypes
import json
import os
import pathlib
import subprocess

import torch

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
TYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "i1": torch.bool}
FORMATS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
           "ocp.e4m3fn": torch.float8_e4m3fn, "ocp.e5m2": torch.float8_e5m2}


class Tensor(ctypes.Structure):
    """altgrad_tensor of altgrad.h."""

    _fields_ = [("size", ctypes.c_uint64), *((name, ctypes.c_int64) for name in (
        "numel", "offset", "rows", "columns", "group", "set", "tag"))]


class Refused(Exception):
    """The compiler or the runtime said no; the words are its own."""


def compiler():
    return pathlib.Path(os.environ.get("ALTGRAD_OPT", ROOT / "build" / "bin" / "altgrad-opt"))


def compile_bundle(out, rule, storage="", targets="x86-64-v3,x86-64-v4", options=()):
    """altgrad-opt --rule=RULE ... --emit=bundle -o OUT"""
    command = [compiler(), f"--rule={rule}", f"--rule-path={ROOT / 'templates'}", f"--target={targets}",
               "--emit=bundle", "-o", out, *([f"--storage={storage}"] if storage else []), *options]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))}\n{done.stderr[:2000]}")
    return out


def ptx(rule, target, options=()):
    """The PTX of a step for one target."""
    command = [compiler(), f"--rule={rule}", f"--rule-path={ROOT / 'templates'}", f"--target={target}", "--emit=ptx", *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def library():
    path = pathlib.Path(os.environ.get("ALTGRAD_LIBRARY", ROOT / "build" / "lib" / "libaltgrad.so"))
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:
        raise Refused(str(error)) from None
    p, i64, u64, s = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_char_p
    lib.altgrad_last_error.restype = lib.altgrad_manifest.restype = lib.altgrad_version.restype = s
    signatures = {"load": [s, p], "manifest": [p], "bundle_free": [p], "plan_create": [p, s, p], "plan_free": [p],
                  "bind_tensors": [p, p, i64, i64], "bind_stream": [p, s, p, i64],
                  "bind_scalar": [p, s, p, i64], "workspace": [p, p], "set_parallel_for": [p, p],
                  "set_threads": [p, ctypes.c_int32], "run": [p, p, u64, i64, i64, p]}
    for name, arguments in signatures.items():
        getattr(lib, "altgrad_" + name).argtypes = arguments
    lib.altgrad_bundle_free.restype = lib.altgrad_plan_free.restype = None
    return lib


def pointers(tensors):
    return (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))


class Program:
    """`device`: "cpu", "cpu:v3", "cpu:v4", "cuda:0", or a device of torch that stands for that in tests.

    bind() takes lists of tensors by stream name. Scalars start at the values given, else at the rule's default, else at
    0, and lie in self.scalars, one tensor each on the program's device.
    """

    def __init__(self, path, device="cpu", parallel_for=None):
        self.lib, self.device = library(), device
        self.memory = torch.device("cpu" if device.startswith("cpu") else device)
        self.bundle, self.plan = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("load", str(path).encode(), ctypes.byref(self.bundle))
        self.manifest = json.loads(self.lib.altgrad_manifest(self.bundle))
        name = f"cuda:{self.memory.index or 0}" if self.memory.type != "cpu" else device
        self.call("plan_create", self.bundle, name.encode(), ctypes.byref(self.plan))
        if parallel_for:
            self.call("set_parallel_for", self.plan, ctypes.cast(parallel_for, ctypes.c_void_p))

    def call(self, name, *arguments):
        if getattr(self.lib, "altgrad_" + name)(*arguments):
            raise Refused(f"altgrad_{name}: {self.lib.altgrad_last_error().decode()}")

    def bind(self, streams, scalars=None, groups=None):
        numel = [t.numel() for t in streams[self.manifest["streams"][0]["name"]]]
        rows = len(numel)
        groups = groups or [0] * rows
        ngroups = max(groups, default=0) + 1
        tensors = [Tensor(ctypes.sizeof(Tensor), n, 0, 0, 0, group, 0, -1) for n, group in zip(numel, groups)]
        self.call("bind_tensors", self.plan, (Tensor * rows)(*tensors), rows, ngroups)
        self.streams = {}
        for stream in self.manifest["streams"]:
            self.bind_stream(stream["name"], streams[stream["name"]], FORMATS[stream["format"]])
        self.scalars = {}
        count = {"step": 1, "group": ngroups, "tensor": rows}
        for scalar in self.manifest["scalars"]:
            name, n = scalar["name"], count[scalar["scope"]]
            values = (scalars or {}).get(name, [scalar["default"] or 0] * n)
            tensor = torch.tensor(values, dtype=TYPES[scalar["type"]], device=self.memory)
            self.scalars[name] = tensor
            first, size = tensor.data_ptr(), tensor.element_size()
            self.call("bind_scalar", self.plan, name.encode(),
                      (ctypes.c_void_p * n)(*(first + i * size for i in range(n))), n)
        bytes_ = ctypes.c_uint64()
        self.call("workspace", self.plan, ctypes.byref(bytes_))
        self.size = bytes_.value
        raw = torch.full((self.size + 64,), 0xA5, dtype=torch.uint8, device=self.memory)
        self.workspace = raw[-raw.data_ptr() % 64:]

    def bind_stream(self, name, tensors, dtype=None):
        for t in tensors:
            if (dtype and t.dtype != dtype) or t.device.type != self.memory.type or not t.is_contiguous():
                raise TypeError(f"stream {name}: {t.dtype} on {t.device}, wants contiguous {dtype} on {self.memory}")
        self.call("bind_stream", self.plan, name.encode(), pointers(tensors), len(tensors))
        self.streams[name] = tensors

    def step(self, first=0, last=-1):
        """On CUDA: on torch's current stream, without waiting for it."""
        stream = torch.cuda.current_stream(self.memory).cuda_stream if self.memory.type == "cuda" else None
        self.call("run", self.plan, self.workspace.data_ptr(), self.size, first, last, stream)

    def __del__(self):
        if getattr(self, "plan", None):
            self.lib.altgrad_plan_free(self.plan)
        if getattr(self, "bundle", None):
            self.lib.altgrad_bundle_free(self.bundle)
