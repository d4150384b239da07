"""Muon through the C ABI: against torch.optim.Muon, against float64, and whose bits depend on what."""

import ctypes

import numpy as np
import pytest

import runner

HYPER = {"lr": 0.02, "momentum": 0.95, "decay": 0.1, "eps": 1e-7}
SHAPES = [(64, 64), (48, 160), (160, 48), (33, 70), (33, 70), (1, 50), (50, 1), (130, 7)]
INTERVAL = 0.68, 1.14  # where five steps of this set bring singular values from [0.01, 1], in exact arithmetic


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return runner.compile_rule("muon", {}, "states=f32", tmp_path_factory.mktemp("muon") / "muon.so")


class Muon:
    """The program on matrices of these shapes, which begin as the seed says."""

    def __init__(self, bundle, shapes, seed=0, threads=1, device="cpu"):
        numbers = np.random.default_rng(seed)
        self.runner = runner.Runner(bundle, device, threads)
        self.w = [numbers.standard_normal(shape).astype(np.float32) for shape in shapes]
        self.buf = [np.zeros(shape, np.float32) for shape in shapes]
        self.g = [np.zeros(shape, np.float32) for shape in shapes]
        self.bind()

    def bind(self):
        self.runner.bind([{"w": w, "buf": b, "g": g} for w, b, g in zip(self.w, self.buf, self.g)],
                         {name: [value] for name, value in HYPER.items()})

    def step(self, gradients):
        for to, gradient in zip(self.g, gradients):
            to[:] = gradient
        self.runner.step()


def gradients(shapes, seed):
    numbers = np.random.default_rng(seed)
    return [numbers.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("match_rms", [False, True])
def test_fifty_steps_are_those_of_torch_within_bf16(bundle, match_rms, tmp_path):
    """A step moves an element by lr * scale * O, of which both know O to a few units of bf16."""
    torch = pytest.importorskip("torch")
    if match_rms:
        bundle = runner.compile_rule("muon", {"scale=match_rms": True}, "states=f32", tmp_path / "muon.so")
    ours = Muon(bundle, SHAPES)
    theirs = [torch.nn.Parameter(torch.from_numpy(w.copy())) for w in ours.w]
    optimizer = torch.optim.Muon(theirs, lr=HYPER["lr"], momentum=HYPER["momentum"], weight_decay=HYPER["decay"],
                                 adjust_lr_fn="match_rms_adamw" if match_rms else None)
    for step in range(50):
        new = gradients(SHAPES, 100 + step)
        for param, gradient in zip(theirs, new):
            param.grad = torch.from_numpy(gradient)
        optimizer.step()
        ours.step(new)
        for shape, w, buf, param in zip(SHAPES, ours.w, ours.buf, theirs):
            scale = 0.2 * max(shape) ** 0.5 if match_rms else max(1.0, shape[0] / shape[1]) ** 0.5
            assert np.array_equal(buf, optimizer.state[param]["momentum_buffer"].numpy())
            assert np.abs(w - param.detach().numpy()).max() <= HYPER["lr"] * scale * 2.0 ** -6, (step, shape)
            w[:] = param.detach().numpy()  # each step by itself


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_of_the_update_are_in_the_interval_of_the_set(bundle, shape):
    """Against the singular value decomposition in float64, with what bf16 may add."""
    muon = Muon(bundle, [shape])
    before = muon.w[0].astype(np.float64)
    muon.step(gradients([shape], 1))
    scale = max(1.0, shape[0] / shape[1]) ** 0.5
    update = (before * (1 - HYPER["lr"] * HYPER["decay"]) - muon.w[0]) / (HYPER["lr"] * scale)
    left, _, right = np.linalg.svd(gradients([shape], 1)[0].astype(np.float64), full_matrices=False)
    values = np.linalg.svd(update, compute_uv=False)
    least = INTERVAL[0] if min(shape) < 0.9 * max(shape) else 0.0  # square ones have values near 0
    assert least - 0.03 <= values.min() and values.max() <= INTERVAL[1] + 0.03
    beside = left.T @ update @ right.T  # diagonal where the singular vectors are those of the gradient
    assert np.abs(beside - np.diag(np.diag(beside))).max() < 0.03


def test_a_matrix_and_its_transpose_give_transposes(bundle):
    """Where tall ones are scaled by a power of two: 40 x 10 by 2."""
    one, other = Muon(bundle, [(10, 40)]), Muon(bundle, [(40, 10)])
    one.w[0][:] = 0
    other.w[0][:] = 0
    gradient = gradients([(10, 40)], 2)[0]
    one.step([gradient])
    other.step([gradient.T])
    assert np.array_equal(2 * one.w[0], other.w[0].T)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_depend_on_neither_threads_nor_neighbours_nor_batches(bundle, threads):
    together = Muon(bundle, SHAPES, threads=threads)
    start = [w.copy() for w in together.w]
    together.step(gradients(SHAPES, 3))
    for index, shape in enumerate(SHAPES):
        alone = Muon(bundle, [shape])
        alone.w[0][:] = start[index]
        alone.step([gradients(SHAPES, 3)[index]])
        assert np.array_equal(alone.w[0].view(np.uint32), together.w[index].view(np.uint32)), shape


def test_a_matrix_of_zeros_and_one_of_rank_one(bundle):
    muon = Muon(bundle, [(8, 12), (8, 12)])
    before = muon.w[0].copy()
    column, row = np.arange(1, 9, dtype=np.float32), np.arange(1, 13, dtype=np.float32)
    muon.step([np.zeros((8, 12)), np.outer(column, row)])
    assert np.array_equal(muon.w[0], before * np.float32(1 - HYPER["lr"] * HYPER["decay"]))
    assert np.isfinite(muon.w[1]).all()


def test_a_vector_is_refused_with_its_place(bundle):
    with pytest.raises(runner.Refused, match=r"tensors\[1\] has 50 elements in 0 rows .* matrices as a whole"):
        Muon(bundle, [(4, 4), (50,)])


class Gemm(ctypes.Structure):
    """altgrad_gemm of altgrad.h."""

    _fields_ = [("size", ctypes.c_uint64), *[(name, ctypes.c_int64) for name in ("batch", "m", "n", "k")],
                *[(name, ctypes.c_void_p) for name in ("a", "b", "d", "c")],
                *[(f"{of}_{what}", ctypes.c_int64) for of in "ab" for what in ("matrix", "row", "column")],
                ("c_matrix", ctypes.c_int64), ("c_row", ctypes.c_int64),
                ("alpha", ctypes.c_double), ("beta", ctypes.c_double), ("type", ctypes.c_int32),
                ("reserved", ctypes.c_int32)]


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Gemm), ctypes.c_void_p)


def view(address, batch, rows, columns, strides):
    """A batch of bf16 matrices in memory, as codes."""
    long = 1 + sum((n - 1) * s for n, s in zip((batch, rows, columns), strides))
    codes = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_uint16)), (long,))
    return np.lib.stride_tricks.as_strided(codes, (batch, rows, columns), [2 * s for s in strides])


def multiply(of):
    """NumPy as the library at hand."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    number = lambda codes: np.ascontiguousarray(codes).view(ml_dtypes.bfloat16).astype(np.float64)
    a = view(of.a, of.batch, of.m, of.k, (of.a_matrix, of.a_row, of.a_column))
    b = view(of.b, of.batch, of.k, of.n, (of.b_matrix, of.b_row, of.b_column))
    c = view(of.c, of.batch, of.m, of.n, (of.c_matrix, of.c_row, 1))
    product = of.alpha * (number(a) @ number(b))
    if of.d:
        product += of.beta * number(view(of.d, of.batch, of.m, of.n, (of.c_matrix, of.c_row, 1)))
    c[:] = product.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    return c


def called(muon, function):
    """`muon` with a function that multiplies, which Python keeps."""
    muon.callback = CALLBACK(lambda pointer, _: function(pointer.contents) or 0)
    assert muon.runner.lib.altgrad_set_gemm(muon.runner.plan, muon.callback, None) == 0
    return muon


def test_a_callback_multiplies_every_shape_once_per_product(bundle):
    """The same matrices, and neighbours of one shape are one call."""
    seen = []

    def count(of):
        seen.append((of.batch, of.m, of.n, of.k))
        multiply(of)

    shapes = [(33, 70), (33, 70), (160, 48)]
    plain, other = Muon(bundle, shapes), called(Muon(bundle, shapes), count)
    for muon in (plain, other):
        muon.step(gradients(shapes, 4))
    for one, two in zip(plain.w, other.w):
        assert np.abs(one - two).max() <= HYPER["lr"] * 2.0 ** -5
    assert seen == [(2, 33, 33, 70), (2, 33, 33, 33), (2, 33, 70, 33)] * 5 \
        + [(1, 48, 48, 160), (1, 48, 48, 48), (1, 160, 48, 48)] * 5


def test_a_callback_that_fails_is_an_error_with_its_number(bundle):
    muon = called(Muon(bundle, [(4, 6)]), lambda of: 7)
    before = muon.w[0].copy()
    with pytest.raises(runner.Refused, match=r"the caller's gemm failed \(7\) in phase matrix.*, and nothing has changed"):
        muon.step(gradients([(4, 6)], 5))
    assert np.array_equal(muon.w[0], before) and not muon.buf[0].any()


@pytest.mark.parametrize("code", [0x7FC0, 0x7F80, 0xFF80], ids=["nan", "inf", "-inf"])
@pytest.mark.parametrize("wrong, tensor", [(0, 0), (14, 0), (15, 2), (29, 2)])
def test_a_callback_that_writes_no_number_is_an_error_that_names_the_tensor(bundle, wrong, tensor, code):
    """Neighbours of one shape are one call, of whose matrices the second is not finite. The next step is a whole one."""
    seen = []

    def spoil(of):
        c = multiply(of)
        seen.append(of.batch)
        if len(seen) == wrong + 1:
            c[-1, -1, 0] = code

    shapes = [(5, 4), (4, 6), (4, 6)] if tensor else [(4, 6), (5, 4)]
    muon, other = called(Muon(bundle, shapes), spoil), called(Muon(bundle, shapes), lambda of: multiply(of) is None)
    before = [w.copy() for w in muon.w]
    with pytest.raises(runner.Refused, match=rf"phase matrix.* of tensor {tensor} has a NaN .* nothing has changed"):
        muon.step(gradients(shapes, 5))
    assert all(np.array_equal(w, old) for w, old in zip(muon.w, before)) and not any(buf.any() for buf in muon.buf)
    for each in (muon, other):
        each.step(gradients(shapes, 5))
    assert all(np.array_equal(w, its) for w, its in zip(muon.w, other.w))


def test_a_gradient_that_is_no_number_is_no_mistake_of_the_products(bundle):
    """Also where its neighbour of the same shape is finite."""
    muon, new = Muon(bundle, [(4, 6), (4, 6)]), gradients([(4, 6), (4, 6)], 6)
    new[0][1, 2] = np.nan
    muon.step(new)
    assert np.isnan(muon.w[0]).all() and np.isfinite(muon.w[1]).all()
