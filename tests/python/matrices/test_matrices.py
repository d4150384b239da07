"""altgrad.matrices.gram and altgrad.matrices.newton_schulz against float64 and numerical gradients."""

import altgrad
import pytest
import torch
from torch.autograd import forward_ad

SHAPES = [(4, 7), (7, 4), (5, 5), (1, 6), (2, 3, 3, 8)]


def drawn(shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def by_svd(x, polynomials):
    """The polynomials of the singular values, which is what an iteration does."""
    left, values, right = torch.linalg.svd(x.double(), full_matrices=False)
    values = values / values.norm(dim=-1, keepdim=True)
    for a, b, c in polynomials:
        values = a * values + b * values ** 3 + c * values ** 5
    return left @ torch.diag_embed(values) @ right


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_gram_is_that_of_torch_and_so_is_its_gradient(shape):
    x = drawn(shape).requires_grad_()
    assert torch.equal(altgrad.matrices.gram(x), x @ x.mT)
    assert torch.autograd.gradcheck(altgrad.matrices.gram, x)


@pytest.mark.parametrize("dtype, bound", [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.05)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_iteration_is_its_polynomials_of_the_singular_values(shape, dtype, bound):
    x = drawn(shape, dtype)
    ours = altgrad.matrices.newton_schulz(x)
    assert ours.dtype == dtype and ours.shape == x.shape
    assert torch.allclose(ours.double(), by_svd(x, [(3.4445, -4.775, 2.0315)] * 5), atol=bound, rtol=0)


def test_bfloat16_has_the_bits_of_torch_optim_muon():
    from torch.optim._muon import _zeropower_via_newtonschulz
    for shape in (24, 40), (40, 24):
        x = drawn(shape, torch.bfloat16)
        assert torch.equal(altgrad.matrices.newton_schulz(x), _zeropower_via_newtonschulz(x, (3.4445, -4.775, 2.0315), 5, 1e-7))


@pytest.mark.parametrize("given", [{}, {"length": "added", "eps": 0.5}, {"eps": 50.0},
                                   {"coefficients": [(2.0, -1.5, 0.5), (1.5, -0.5, 0.0)], "steps": 2}], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_the_numerical_ones(shape, given):
    x = drawn(shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: altgrad.matrices.newton_schulz(x, **given), x)


def test_strides_and_batches_do_not_matter():
    x = drawn((3, 6, 9))
    turned = x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    assert torch.allclose(altgrad.matrices.newton_schulz(turned), torch.stack([altgrad.matrices.newton_schulz(one) for one in x]))
    assert torch.allclose(altgrad.matrices.newton_schulz(x.mT), altgrad.matrices.newton_schulz(x).mT)


@pytest.mark.parametrize("made", [
    lambda: drawn((6, 4, 3)).permute(2, 0, 1), lambda: drawn((4, 1)).expand(4, 5), lambda: drawn((8, 12))[::2, 1::3],
    lambda: drawn((20,)).as_strided((4, 5), (2, 3))], ids=["turned", "one column", "every second", "overlapping"])
def test_any_strides_give_the_numbers_and_gradients_of_a_copy(made):
    x = made()
    for function in (altgrad.matrices.gram, altgrad.matrices.newton_schulz):
        strided, copy = (given.detach().requires_grad_() for given in (x, x.contiguous()))
        ours, its = function(strided), function(copy)
        (ours * torch.arange(ours.shape[-1])).sum().backward()
        (its * torch.arange(its.shape[-1])).sum().backward()
        assert torch.allclose(ours, its) and torch.allclose(strided.grad, copy.grad)


@pytest.mark.parametrize("length", ["clamped", "added"])
def test_float16_has_norms_that_are_no_numbers_of_it(length):
    x = torch.randn(48, 64, generator=torch.Generator().manual_seed(0))
    grad, found = torch.randn(48, 64, generator=torch.Generator().manual_seed(1)).half(), []
    for size, dtype in ((2.0 ** 12, torch.float16), (1.0, torch.float16), (1.0, torch.float32)):
        one = (x.half() * size).to(dtype).requires_grad_()
        out = altgrad.matrices.newton_schulz(one, eps=1e-9, length=length)
        out.backward(grad.to(dtype))
        assert out.dtype == one.grad.dtype == dtype
        found.append((out.float(), one.grad.float() * size))
    assert torch.equal(found[0][0], found[1][0]) and (found[0][0] - found[2][0]).abs().max() < 0.01
    assert (found[1][1] - found[2][1]).norm() < 0.02 * found[2][1].norm()
    assert not altgrad.matrices.newton_schulz(torch.zeros(3, 4, dtype=torch.float16), eps=1e-9, length=length).any()


@pytest.mark.parametrize("function", [altgrad.matrices.gram, lambda x: altgrad.matrices.newton_schulz(x, steps=2)])
def test_second_derivatives_are_the_numerical_ones(function):
    assert torch.autograd.gradgradcheck(function, drawn((2, 4)).requires_grad_())


@pytest.mark.parametrize("given", [torch.randn(3, 5), torch.randn(5, 3)], ids=["wide", "tall"])
@pytest.mark.parametrize("function, product", [
    (altgrad.matrices.gram, lambda x: x @ x.mT),
    (lambda x: altgrad.matrices.newton_schulz(x, (2.0, -1.5, 0.5), 1), lambda x: (2 * x - 1.5 * x @ x.mT @ x / x.square().sum()
     + 0.5 * x @ x.mT @ x @ x.mT @ x / x.square().sum() ** 2) / x.square().sum().sqrt())], ids=["gram", "newton_schulz"])
def test_transforms_of_torch_func_see_the_products(function, product, given):
    """torch gives an operator a tangent of zeros without a word, and functions of gradients refuse it."""
    x, along = given.double(), given.double().flip(0)
    for whole in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
        torch.testing.assert_close(whole(function)(x), whole(product)(x))
    torch.testing.assert_close(torch.func.jvp(function, (x,), (along,)), torch.func.jvp(product, (x,), (along,)))
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    compiled(x)  # a graph for what differentiates nothing
    for called in (function, compiled):
        with forward_ad.dual_level():
            dual = forward_ad.unpack_dual(called(forward_ad.make_dual(x, along)))
        torch.testing.assert_close(dual.tangent, torch.func.jvp(product, (x,), (along,))[1])
    batch = torch.stack([x, along])
    for mapped in (torch.vmap, lambda of: torch.compile(torch.vmap(of), backend="aot_eager", fullgraph=True)):
        torch.testing.assert_close(mapped(function)(batch), torch.vmap(product)(batch))


def test_one_graph_of_torch_compile_has_both_forward_and_backward():
    def loss(x):
        return (altgrad.matrices.gram(altgrad.matrices.newton_schulz(x)) - torch.eye(4)).square().sum()
    eager, traced = (drawn((3, 4, 6), torch.float32).requires_grad_() for _ in range(2))
    loss(eager).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(traced).backward()
    assert torch.equal(eager.grad, traced.grad)


@pytest.mark.parametrize("function", [altgrad.matrices.gram, altgrad.matrices.newton_schulz])
def test_autocast_leaves_the_dtype_alone(function):
    x, plain = (drawn((4, 6), torch.float32).requires_grad_() for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        ours = function(x)
        ours.square().sum().backward()
    function(plain).square().sum().backward()
    assert torch.equal(ours, function(plain)) and torch.equal(x.grad, plain.grad)


def test_a_matrix_of_zeros_gives_zeros_and_a_finite_gradient():
    x = torch.zeros(3, 4, requires_grad=True)
    ours = altgrad.matrices.newton_schulz(x)
    ours.sum().backward()
    assert not ours.any() and torch.isfinite(x.grad).all()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 3, 4)])
def test_matrices_without_elements_stay_so(shape):
    x = torch.zeros(shape, requires_grad=True)
    altgrad.matrices.newton_schulz(x).sum().backward()
    assert altgrad.matrices.newton_schulz(x).shape == x.grad.shape == shape


def test_the_operators_are_registered_for_tracing():
    x = drawn((4, 6), torch.float32).requires_grad_()
    torch.library.opcheck(torch.ops.altgrad.gram, (x,))
    torch.library.opcheck(torch.ops.altgrad.newton_schulz, (x, [3.4445, -4.775, 2.0315] * 3, 1e-7, False))


@pytest.mark.parametrize("call, error, words", [
    (lambda: altgrad.matrices.gram(torch.zeros(3)), ValueError, r"gram: x has the shape \(3,\), no matrices"),
    (lambda: altgrad.matrices.gram(torch.zeros(3, 3, dtype=torch.int32)), TypeError, "gram: x is torch.int32, no tensor of real"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), steps=0), ValueError, "steps is 0"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), [(1, 2, 3)], 2), ValueError, "steps is 2, with coefficients for 1"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), (1, 2)), ValueError, "neither three finite numbers"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), steps=2.5), ValueError, "steps is 2.5, no whole number"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), "jordan"), ValueError, "coefficients is 'jordan', neither three"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), length="long"), ValueError, "length is 'long'"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), eps=-1.0), ValueError, "eps is -1.0, below 0 or no number"),
    (lambda: altgrad.matrices.newton_schulz(torch.zeros(3, 3), eps=float("nan")), ValueError, "eps is nan, below 0 or no number"),
    (lambda: altgrad.matrices.gram(torch.eye(3).to_sparse()), TypeError, "gram: x is torch.sparse_coo, no tensor of real"),
], ids=["vector", "integers", "steps", "rows", "pair", "half a step", "a name", "length", "eps", "no eps", "sparse"])
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
