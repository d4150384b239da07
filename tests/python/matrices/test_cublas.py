"""A plan for a GPU to which nobody gives a function that multiplies: cuBLASLt, which a library of the tests plays."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "reference"))
import runner  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("ALTGRAD_STANDS_FOR_CUDA") != "cpu", reason="only GPUs have this library")
FAKE = runner.BUILD / "tests" / "cuda" / "libfakecublasLt.so"
HYPER = {"lr": 0.02, "momentum": 0.95, "decay": 0.1, "eps": 1e-7}
# A batch, tall and wide, and elongated ones, which take the Gram form in f16 and f32, and shifts of diagonals.
SHAPES = [(12, 16), (12, 16), (16, 12), (8, 40), (8, 40), (40, 8), (5, 7)]


def stepped(bundle, device, shapes=SHAPES, steps=2):
    """Weights after some steps of a plan of the C ABI without altgrad_set_gemm."""
    numbers = np.random.default_rng(3)
    step = runner.Runner(bundle, device)
    tensors = [{"w": numbers.standard_normal(shape).astype(np.float32), "buf": np.zeros(shape, np.float32),
                "g": numbers.standard_normal(shape).astype(np.float32)} for shape in shapes]
    step.bind(tensors, {name: [value] for name, value in HYPER.items()})
    for _ in range(steps):
        step.step()
    return [tensor["w"] for tensor in tensors]


def in_child(work, tmp_path, library=FAKE, products="library"):
    """Prints of a process of its own: torch gives a function to all plans of this one, and a library is opened once."""
    script = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from test_cublas import *; {work}"
    environment = {**os.environ, "ALTGRAD_CUBLASLT": str(library), "ALTGRAD_CACHE_DIR": str(tmp_path / "cache"),
                   "ALTGRAD_CUDA_PRODUCTS": products,
                   "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["bf16", "f16", "f32"])
def bundle(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("muon") / f"{request.param}.so"
    return runner.compile_rule("muon", {f"in={request.param}": True}, "states=f32", out, "x86-64-v3,sm_80,sm_90")


def compare(bundle, *given):
    fake = ctypes.CDLL(str(FAKE))
    for one, other in zip(stepped(bundle, "cuda", *given), stepped(bundle, "cpu:v3", *given)):
        assert np.isfinite(one).all(), one
        scale = max(1.0, one.shape[0] / one.shape[1]) ** 0.5
        assert np.abs(one - other).max() <= 2 * HYPER["lr"] * scale * (2.0 ** -16 if "f32" in bundle else 2.0 ** -6)
    print(fake.fakecublas_products(), fake.fakecublas_matrices() > fake.fakecublas_products(), fake.fakecublas_kept(),
          fake.fakecublas_copies())


def test_steps_are_those_of_the_plain_kernel(bundle, tmp_path):
    """Two steps of five iterations of three products, and neighbours of one shape are one call."""
    printed = in_child(f"compare({str(bundle)!r})", tmp_path).split()
    assert printed[1:] == ["True", "0", "0"]
    assert "bf16" not in str(bundle) or printed[0] == str(2 * 5 * 3 * 5)


@pytest.mark.parametrize("refused", [0, 15])
def test_strips_up_to_the_diagonal_give_the_step_of_whole_squares(bundle, tmp_path, refused):
    """Of a batch; and whole squares where the library does not copy what is below the diagonal above it."""
    work = f"ctypes.CDLL(str(FAKE)).fakecublas_refuse_copies({refused}); compare({str(bundle)!r}, [(257, 260)] * 2, 1)"
    products, _, kept, copies = in_child(work, tmp_path, products="strips").split()
    squares = 0 if "f32" in str(bundle) else 10  # two of each of five iterations, each as 128, 128 and 1 rows
    assert (int(products), int(copies), kept) == (15 + 2 * squares, 0 if refused else 2 * squares, "0")


def refused(bundle, status):
    ctypes.CDLL(str(FAKE)).fakecublas_refuse(status)
    try:
        stepped(bundle, "cuda")
    except runner.Refused as error:
        print(error)


def test_a_status_is_an_error_with_its_number(bundle, tmp_path):
    printed = in_child(f"refused({str(bundle)!r}, 15)", tmp_path)
    assert "cuBLASLt refuses a product: its status is 15, and nothing has changed" in printed


def test_without_the_library_words_say_what_to_do(bundle, tmp_path):
    printed = in_child(f"refused({str(bundle)!r}, 0)", tmp_path, tmp_path / "libcublasLt.so.13")
    assert "give a function to altgrad_set_gemm, or install NVIDIA's cuBLAS" in printed
    assert "libcublasLt.so.13: cannot open shared object file" in printed
