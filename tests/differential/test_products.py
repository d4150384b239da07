"""Our kernels for symmetric products, run as PTX by the interpreter: whole numbers exactly, others within mma's bound."""

import functools
import importlib.util
import re
import shutil
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest

import program
import ptxrun

ORACLE = program.ROOT / "tests/ptx/oracle/interpreter.py"
PTXAS = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
ROWS, COLUMNS, STAGES = 128, 192, 4 * (128 + 192) * 32 * 2  # dialect/Target.h
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
MMA = 18 * 2.0**-23  # of the largest term: tests/ptx/README.md
needs_interpreter = pytest.mark.skipif(not ptxrun.available(), reason="the interpreter is not built")

RULE = program.ROOT / "tests/codegen/own-products.mlir"  # of bf16


@functools.cache
def ptx(format, target="sm_80"):
    text = RULE.read_text().replace("tensors<bf16>", f"tensors<{format}>")
    return program.call("-", "--rule=product", "--emit=ptx", f"--target={target}", "--own-products", text=text)


@functools.cache
def interpreter():
    spec = importlib.util.spec_from_file_location("ptx_interpreter", ORACLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, module.Library(ptxrun.LIBRARY)


def aligned(shape, type):
    """Zeros whose address is a multiple of 16 bytes."""
    room = np.zeros(int(np.prod(shape)) + 8, type)
    first = -room.ctypes.data // 2 % 8
    return room[first:first + int(np.prod(shape))].reshape(shape)


class Case:
    """Matrices with gaps behind their lines: A and B are batch x n x k, D is symmetric, or None."""

    def __init__(self, format, columns, a, b, d):
        self.format, self.columns, (self.batch, self.n, self.k) = format, columns, a.shape
        self.a, self.b = (self._lines(m.swapaxes(1, 2) if columns else m) for m in (a, b))
        self.c = self._lines(np.full((self.batch, self.n, self.n), 9.0))
        self.c[:, :, self.n:] = 7
        self.d = None if d is None else self._lines(d)

    def _lines(self, matrices):
        batch, lines, length = matrices.shape
        held = aligned((batch, lines, -(-length // 8) * 8 + 8), TYPES[self.format])
        held[:, :, :length] = matrices
        return held

    def run(self, alpha=1.0, beta=0.0, perturbation=0, text=None):
        interpret, library = interpreter()
        module = interpret.Module(library, text or ptx(self.format))
        pointers = [0 if m is None else module.map(m, 0 if m is self.c else interpret.READ_ONLY)
                    for m in (self.a, self.b, self.d, self.c)]
        distances = [d for m in (self.a, self.b, self.c) for d in (m[0].size, m.shape[2])]
        words = struct.pack("12q2f", *pointers, *distances, self.n, self.k, alpha, beta)
        grid = (-(-self.n // COLUMNS), -(-self.n // ROWS), self.batch)
        name = f"altgrad_symmetric_{'columns_' if self.columns else ''}{self.format}"
        module.launch(name, grid, 256, words, dynamic_shared_bytes=STAGES, perturbation=perturbation, order=2, seed=5)
        assert (self.c[:, :, self.n:] == 7).all(), "a gap was written"
        return self.c[:, :, :self.n]


# n with and without a second tile of rows and of columns; sums that end inside a piece, a stage, and the first stages.
SHAPES = [(1, 8, 1), (3, 24, 37), (1, 136, 40), (2, 200, 129)]
LAYOUTS = [(format, columns) for format in TYPES for columns in (False, True)]


@needs_interpreter
@pytest.mark.parametrize("format,columns", LAYOUTS)
@pytest.mark.parametrize("batch,n,k", SHAPES)
def test_whole_numbers_are_exact(batch, n, k, format, columns):
    r = np.random.default_rng(n + k)
    a = r.integers(-4, 5, (batch, n, k)).astype(float)
    got = Case(format, columns, a, a, None).run(alpha=0.5)
    want = (0.5 * a @ a.swapaxes(1, 2)).astype(np.float32).astype(TYPES[format])
    np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))


@needs_interpreter
@pytest.mark.parametrize("format,columns", LAYOUTS)
def test_polynomials_are_within_the_bound_and_symmetric(format, columns):
    r = np.random.default_rng(3)
    a = r.standard_normal((1, 136, 136))
    a = (a + a.swapaxes(1, 2)).astype(TYPES[format]).astype(float)
    got = Case(format, columns, a, a, a).run(alpha=2.0315, beta=-4.775, perturbation=11)
    np.testing.assert_array_equal(got.view(np.uint16), got.swapaxes(1, 2).view(np.uint16))
    alpha, beta = float(np.float32(2.0315)), float(np.float32(-4.775))
    want = alpha * a @ a + beta * a
    sums = MMA * -(-136 // 32) * 2 * abs(alpha) * (abs(a) @ abs(a)) + 2.0**-23 * abs(want)
    half = abs(want) * (2.0**-8 if format == "bf16" else 2.0**-11)
    assert (abs(got.astype(float) - want) <= sums + half).all()


@needs_interpreter
@pytest.mark.parametrize("less,instead", [(r"wait_group\s+2", "wait_group 3"), (r"bar\.sync\s+0;", "")])
def test_less_synchronisation_is_found(less, instead):
    a = np.ones((1, 136, 200))
    text = re.sub(less, instead, ptx("bf16"))
    with pytest.raises(interpreter()[0].Faulted, match="shared-race|uninitialised-memory"):
        Case("bf16", False, a, a, None).run(text=text)


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_90"])
@pytest.mark.parametrize("format", TYPES)
def test_ptxas_takes_them_without_spills(format, target, tmp_path):
    path = tmp_path / "products.ptx"
    path.write_text(ptx(format, target))
    command = [PTXAS, f"-arch={target}", "-v", path, "-o", tmp_path / "products.cubin"]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    parts = [part for part in words.split("Compiling entry function") if "altgrad_symmetric" in part]
    assert len(parts) == 2 and all("0 bytes spill stores, 0 bytes spill loads" in part for part in parts), words
    print(words)
