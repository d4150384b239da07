"""Squares that have no root or basis of their own: a parameter stays finite, or an error changes nothing."""

import ctypes
import warnings

import pytest
import torch

import altgrad
from altgrad._core import core
from altgrad._library import library


def made(kind, shape=(6, 4), **options):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    options = {"precondition_frequency": 1, **options}
    return param, (altgrad.optim.Shampoo if kind == "Shampoo" else altgrad.optim.SOAP)([param], **options)


def step(param, optimizer, grad=None):
    param.grad = torch.randn(param.shape) if grad is None else grad
    optimizer.step()


@pytest.mark.parametrize("factorize", ["torch", "products"])
@pytest.mark.parametrize("kind, options", [("SOAP", {}), ("Shampoo", dict(epsilon=0.0))])
def test_gradients_of_zeros_move_nothing_but_by_decay(kind, options, factorize):
    param, optimizer = made(kind, weight_decay=0.0, factorize=factorize, **options)
    before = param.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(4):
            step(param, optimizer, torch.zeros(6, 4))
    assert torch.equal(param, before)


@pytest.mark.parametrize("factorize, warned", [("torch", 0), ("products", 1)])
def test_a_square_with_eigenvalues_below_0_leaves_finite_parameters_and_warns_once(factorize, warned):
    param, optimizer = made("Shampoo", factorize=factorize)
    step(param, optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            optimizer.state[param]["row_gram"].copy_(-100 * torch.eye(6))
            step(param, optimizer)
    assert param.isfinite().all()
    assert len([one for one in caught if "torch has factorized it" in str(one.message)]) == warned


@pytest.mark.parametrize("kind", ["SOAP", "Shampoo"])
def test_a_factorization_that_fails_is_one_error_and_changes_nothing(kind):
    param, optimizer = made(kind)
    step(param, optimizer)
    before = param.detach().clone(), {key: value.clone() for key, value in optimizer.state[param].items()}
    fails = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(lambda given, context: 7)
    library().altgrad_set_factorize(None, ctypes.cast(fails, ctypes.c_void_p), None)
    try:
        with pytest.raises(altgrad.Error, match=r"a factorization of squares of [46] rows failed \(7\).*nothing has changed"):
            step(param, optimizer)
    finally:
        library().altgrad_set_factorize(None, ctypes.cast(core().altgrad_core_factorize, ctypes.c_void_p), None)
    assert torch.equal(param, before[0])
    assert all(torch.equal(optimizer.state[param][key], value) for key, value in before[1].items())


@pytest.mark.parametrize("kind", ["SOAP", "Shampoo"])
@pytest.mark.parametrize("shape, squares", [((0, 4), 1), ((1, 4), 1), ((4, 1), 1), ((1, 1), 0), ((1,), 0), ((), 0)])
def test_a_side_of_0_or_1_rows_has_no_square(kind, shape, squares):
    param, optimizer = made(kind, shape)
    for _ in range(3):
        step(param, optimizer)
    assert param.isfinite().all()
    assert len([key for key in optimizer.state[param] if key.endswith("_gram")]) == squares


def test_a_word_for_who_factorizes_is_one_of_two_and_the_same_in_all_groups():
    with pytest.raises(ValueError, match="factorize is 'newton', neither 'torch' nor 'products'"):
        made("Shampoo", factorize="newton")
    param, optimizer = made("SOAP")
    with pytest.raises(ValueError, match="group 1: factorize is 'products', and that of group 0 is 'torch'"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3, 3))], "factorize": "products"})


@pytest.mark.parametrize("kind", ["SOAP", "Shampoo"])
def test_products_alone_take_the_steps_of_torchs_factorizations(kind):
    options = dict(epsilon=1e-3) if kind == "Shampoo" else {}
    (one, by_torch), (other, by_products) = made(kind, **options), made(kind, factorize="products", **options)
    first = one.detach().clone()
    for _ in range(20):
        grad = torch.randn(one.shape)
        step(one, by_torch, grad), step(other, by_products, grad)
    assert (one - other).abs().max() < 1e-3 * (one - first).abs().max()


@pytest.mark.parametrize("magnitude", [1e20, 1e30, 3e38])
@pytest.mark.parametrize("shape", [(6,), (1, 1), (), (5, 3)])
@pytest.mark.parametrize("kind, options", [("SOAP", {}), ("SOAP", dict(normalize_grads=True)), ("Shampoo", {}),
                                           ("Shampoo", dict(grafting_type="adam"))], ids=str)
def test_gradients_whose_squares_overflow_leave_finite_parameters(kind, options, shape, magnitude):
    param, optimizer = made(kind, shape, **options)
    for _ in range(4):
        try:
            step(param, optimizer, torch.full(shape, magnitude))
        except altgrad.Error as error:  # of the square; nothing has changed
            assert "factorize" in str(error) or "matrix" in str(error)
    assert torch.isfinite(param).all()
