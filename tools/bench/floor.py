"""The floor loop of tools/floor.c, compiled at first use and run on torch's own threads."""

import ctypes
import hashlib
import pathlib
import shutil
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHUNK_BYTES = 16384


def build():
    """The path of the shared object; compiled for this CPU, again when the source or the CPU changes."""
    source = ROOT / "tools" / "floor.c"
    cpu = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    key = hashlib.sha256(source.read_bytes() + cpu.encode()).hexdigest()[:12]
    out = ROOT / "build" / "bench" / f"floor-{key}.so"
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which("clang-22") or shutil.which("clang") or shutil.which("cc")
        part = out.with_suffix(".part")
        subprocess.run([compiler, "-O2", "-march=native", "-mprefer-vector-width=512", "-shared", "-fPIC",
                        "-o", part, source], check=True)
        part.rename(out)
    return out


def torch_parallel_for():
    """torch's pool as a C function, or None where this torch does not export it."""
    try:
        return ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).torch_parallel_for
    except (OSError, AttributeError):
        return None


class Row(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("grad", "param", "m", "v")] + [
        ("bytes", ctypes.c_int64), ("weight", ctypes.c_void_p)]


class Floor:
    """One step's traffic over lists of equal tensors: gradients read; parameters and two states read and written."""

    def __init__(self, params, grads, m, v, clipped):
        self.kept, self.clipped = (params, m, v), clipped
        self.function = ctypes.CDLL(str(build())).floor_step
        self.pool = ctypes.cast(torch_parallel_for(), ctypes.c_void_p) if torch.get_num_threads() > 1 else None
        self.rows = (Row * len(params))()
        chunks = []
        for i, tensors in enumerate(zip(grads, params, m, v)):
            size = tensors[1].numel() * tensors[1].element_size()
            self.rows[i] = Row(*(t.data_ptr() for t in tensors), size)
            for first in range(0, size, CHUNK_BYTES):
                chunks += [i, first]
        self.count = len(chunks) // 2
        self.chunks = (ctypes.c_int64 * len(chunks))(*chunks)

    def rebind(self, grads):
        for row, grad in zip(self.rows, grads):
            row.grad = grad.data_ptr()

    def step(self):
        self.function(self.rows, self.chunks, ctypes.c_int64(self.count), self.clipped, self.pool)
