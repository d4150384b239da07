"""Muon's symmetric products by our own kernels, run as PTX on the test driver, beside the library's."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import altgrad
import numpy as np
import pytest
import torch

for folder in Path(__file__).parents[1], Path(__file__).parents[2] / "reference":  # in processes of their own, too
    sys.path.append(str(folder))
import gemms  # noqa: E402
import runner  # noqa: E402
from altgrad import _bundle, _core  # noqa: E402
from altgrad._library import library, own_compiler  # noqa: E402
from altgrad._rule import find_rule  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("ALTGRAD_STANDS_FOR_CUDA") != "cpu", reason="only GPUs have these kernels")
LR = 0.02


class Launch(ctypes.Structure):
    """fakecuda_launch of tests/cuda/fakecuda.h, to the grid."""

    _fields_ = [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("rest", ctypes.c_uint64 * 8)]


class Driver(gemms.Products):
    """The test driver: what was launched since, and how many products the library did, each of which takes `us`."""

    def __init__(self, us=0):
        self.fake, self.calls, self._us = ctypes.CDLL("libcuda.so.1"), 0, us
        self.fake.fakecuda_get.restype = self.fake.fakecuda_calls.restype = ctypes.c_int64
        self.fake.fakecuda_set.argtypes = ctypes.c_char_p, ctypes.c_int64
        self.fake.fakecuda_clear_launches()
        super().__init__()

    def call(self, gemm, context):
        self.calls += 1
        self.fake.fakecuda_set(b"clock", self.fake.fakecuda_get(b"clock") + self._us)
        return super().call(gemm, context)

    def own(self):
        """The kernels for products among the launches, and their grids."""
        found, launch = [], Launch()
        while self.fake.fakecuda_launch_at(ctypes.c_size_t(len(found)), ctypes.byref(launch)):
            found.append((launch.kernel.decode(), tuple(launch.grid)))
        return [(name, grid) for name, grid in found if name.startswith("altgrad_symmetric_")]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """What was measured before, by another test, is not known."""
    monkeypatch.setenv("ALTGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ALTGRAD_CUDA_PRODUCTS", "auto")
    return monkeypatch


def stepped(shapes, steps=2, **given):
    """Parameters after some steps; each has the gradients that its place among `shapes` says."""
    made = torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(shape, generator=made)) for shape in shapes]
    optimizer = altgrad.optim.Muon(params, lr=LR, ns_steps=2, **given)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=made)
        optimizer.step()
    return params


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_own_products_give_the_step_of_the_library_within_rounding(cache, dtype):
    """Wide, tall, two tiles of rows, a batch, a stack; what is no multiple of 8 stays the library's."""
    shapes = [(24, 40), (40, 24), (136, 144), (16, 16), (16, 16), (2, 16, 24), (5, 7)]
    given = {"orthogonalize": altgrad.optim.NewtonSchulz(dtype=torch.bfloat16 if dtype == "bf16" else torch.float16)}
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "library")
    with Driver() as plain:
        wanted = stepped(shapes, 1, **given)
        assert not plain.own()
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "own")
    with Driver() as driver:
        got = stepped(shapes, 1, **given)
    names = [name for name, _ in driver.own()]
    assert plain.calls == 36 and driver.calls == 16
    assert names.count(f"altgrad_symmetric_{dtype}") == 18 and names.count(f"altgrad_symmetric_columns_{dtype}") == 2
    assert ("altgrad_symmetric_" + dtype, (1, 2, 1)) in driver.own()
    for one, other in zip(got, wanted):
        scale = max(1.0, one.shape[-2] / one.shape[-1]) ** 0.5
        assert not torch.equal(one, torch.zeros_like(one)) and (one - other).abs().max() <= LR * scale * 2.0 ** -6


def test_a_square_with_a_shift_is_the_librarys(cache):
    """Of the Gram form in f16, also where the same square without a shift is faster by a kernel of our own."""
    steps = {}
    for word in "library", "auto":
        cache.setenv("ALTGRAD_CUDA_PRODUCTS", word)
        with Driver(us=50) as driver:
            steps[word] = stepped([(24, 24), (24, 48)], 1, orthogonalize=altgrad.optim.NewtonSchulz(dtype=torch.float16))
    assert driver.own()
    for one, other in zip(*steps.values()):
        assert (one - other).abs().max() <= LR * 2.0 ** -6


def test_bits_of_an_own_product_are_those_of_any_batch(cache):
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "own")
    with Driver() as driver:
        together = stepped([(24, 32), (24, 32), (24, 32)])
        batched = {grid[2] for _, grid in driver.own()}
        apart = stepped([(24, 32), (24, 32), (24, 32)], reproducible=True)
    assert batched == {3} and all(torch.equal(one, other) for one, other in zip(together, apart))


@pytest.mark.parametrize("us, own", [(0, False), (50, True)])
def test_the_faster_one_is_used_and_measured_once(us, own):
    """Six runs of each of a step's two kinds, the first time. Nothing grows afterwards."""
    shape = (24, 48) if own else (48, 56)  # squares of 24 are known afterwards
    with Driver(us) as driver:
        stepped([shape], 1)
        assert (len(driver.own()), driver.calls) == (12 + 4 * own, 12 + 6 - 4 * own)
        events = driver.fake.fakecuda_calls(b"cuEventElapsedTime")
        driver.fake.fakecuda_clear_launches()
        driver.calls = 0
        alive = [driver.fake.fakecuda_get(b"alive") for _ in range(5) if stepped([shape], 2)]
        assert (len(driver.own()), driver.calls) == (40 * own, 60 - 40 * own)
        assert driver.fake.fakecuda_calls(b"cuEventElapsedTime") == events and len(set(alive)) == 1


def test_without_the_variable_the_library_multiplies_whatever_kernels_a_bundle_has(cache):
    compile = _core.core().altgrad_core_compile

    def compiled(request, bundle):
        cache.setenv("ALTGRAD_CUDA_PRODUCTS", "own")
        compile(request, bundle)
        cache.delenv("ALTGRAD_CUDA_PRODUCTS")

    cache.setattr(_core.core(), "altgrad_core_compile", compiled)
    cache.delenv("ALTGRAD_CUDA_PRODUCTS")
    with Driver(50) as driver:
        stepped([(24, 72)], 1)
    assert driver.calls and not driver.own()


def test_who_asks_for_bits_gets_the_librarys():
    with Driver(50) as driver:
        stepped([(24, 64)], 1, reproducible=True)
    assert not driver.own()


def test_a_kernel_that_is_wrong_is_not_fast(cache):
    """The library's numbers are others here; then nobody is taken for right but the library."""
    with Driver(50) as driver:
        def twice(gemm, context):
            words = ctypes.cast(gemm, ctypes.POINTER(ctypes.c_double))
            words[17] *= 2  # alpha
            return driver.call(gemm, context)

        with gemms.Products(twice):
            stepped([(32, 40)], 1)
    assert len(driver.own()) == 12


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from test_own_products import Driver, stepped
with Driver({us}) as driver:
    stepped([(16, 24)], 1)
print(len(driver.own()), driver.calls)
"""


def test_another_process_finds_the_decision_on_disk():
    """Whatever it would have measured itself."""
    printed = []
    for us in (50, 0):
        text = SCRIPT.format(folder=os.path.dirname(__file__), us=us)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True)
        printed.append(done.stdout.strip())
        assert done.returncode == 0, done.stderr
    assert printed == ["16 14", "4 2"]


def test_a_word_that_is_none_of_these_is_refused(cache):
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "fast")
    with pytest.raises(altgrad.Error, match='ALTGRAD_CUDA_PRODUCTS is "fast"; there are auto, own, strips and library'):
        stepped([(8, 16)], 1)


def cu(name, *arguments):
    """Calls a function of the test driver."""
    function, found = ctypes.c_void_p(), ctypes.c_int()
    find = ctypes.CDLL("libcuda.so.1").cuGetProcAddress_v2
    assert find(name.encode(), ctypes.byref(function), 12080, ctypes.c_uint64(0), ctypes.byref(found)) == 0
    assert ctypes.CFUNCTYPE(ctypes.c_int, *map(type, arguments))(function.value)(*arguments) == 0, name


def runs(bundle, shape, captures):
    """Steps of a plan of the C ABI, of which some are captured; yields after each."""
    step, context, stream, graph = runner.Runner(bundle, "cuda"), *[ctypes.c_void_p() for _ in range(3)]
    tensor = {name: np.ones(shape, np.float32) for name in ("w", "buf", "g")}
    step.bind([tensor], {"lr": [LR], "momentum": [0.9], "decay": [0.1], "eps": [1e-7]})
    cu("cuDevicePrimaryCtxRetain", ctypes.pointer(context), ctypes.c_int(0))
    cu("cuCtxPushCurrent", context)
    cu("cuStreamCreate", ctypes.pointer(stream), ctypes.c_uint(1))
    for captured in captures:
        if captured:
            cu("cuStreamBeginCapture", stream, ctypes.c_int(0))
        step._call("run", step.plan, step.workspace.ctypes.data, step.size, 0, -1, stream)
        if captured:
            cu("cuStreamEndCapture", stream, ctypes.pointer(graph))
            cu("cuGraphDestroy", graph)
        yield
    cu("cuStreamDestroy", stream)
    cu("cuCtxPopCurrent", ctypes.pointer(context))


def test_nothing_is_measured_under_capture(tmp_path):
    """A shape that is not known yet is the library's there; afterwards a graph has what was decided."""
    bundle = runner.compile_rule("muon", {}, "states=f32", tmp_path / "muon.so", "sm_80,sm_90", "--own-products")
    counts = []
    with Driver(50) as driver:
        timed = lambda: driver.fake.fakecuda_calls(b"cuEventElapsedTime")
        before = timed()
        for _ in runs(bundle, (40, 64), (True, False, True)):
            counts.append((len(driver.own()), timed() - before))
            driver.fake.fakecuda_clear_launches()
            before = timed()
    assert counts == [(0, 0), (12 + 10, 20), (10, 0)]


def given(bundle, *captures):
    """Prints how often each step calls a function for symmetric products, which takes no time."""
    calls = []
    with Driver(50) as driver:
        function = gemms.KIND(lambda gemm, context: calls.append(gemm) or driver.multiply(gemm, None))
        library().altgrad_set_symmetric_gemm(ctypes.cast(function, ctypes.c_void_p), None, b"given 1")
        for _ in runs(bundle, (256, 264), captures):
            print(len(calls))
            calls.clear()


def test_a_function_that_another_process_has_chosen_is_first_called_outside_of_a_capture(tmp_path):
    """It may compile in its first call."""
    bundle = runner.compile_rule("muon", {}, "states=f32", tmp_path / "muon.so", "sm_80,sm_90")
    printed = []
    for captures in (False,), (True, False, True):
        text = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from test_own_products import *; "
        text += f"given({str(bundle)!r}, *{captures})"
        done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed == [["22"], ["0", "10", "10"]]


def test_only_programs_with_matrices_ask_for_them(cache, tmp_path):
    """Others are found among the prebuilt ones."""
    compiler, asked = tmp_path / "altgrad-opt", tmp_path / "asked"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexec {os.environ.get("ALTGRAD_OPT") or own_compiler()} "$@"\n')
    compiler.chmod(0o755)
    cache.setenv("ALTGRAD_OPT", str(compiler))
    for name in ("adamw", "muon"):
        _bundle.compile_sets([f"rule={name} param=f32"], [find_rule(name)], on_host=False)
    assert ["rule=muon" in line for line in asked.read_text().splitlines() if "--own-products" in line] == [True]
