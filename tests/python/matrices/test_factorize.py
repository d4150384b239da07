"""torch's factorizations, as a step asks for them, beside NumPy's in float64."""

import ctypes
from ctypes import c_double, c_int32, c_int64, c_uint64, c_void_p

import numpy
import pytest
import torch

from altgrad._core import core

EIGENBASIS, ORDER, ORTHONORMAL, INVERSE_ROOT, IDENTITY = range(5)


class Factorization(ctypes.Structure):
    """altgrad_factorization of gemm.h."""

    _fields_ = [("size", c_uint64), ("batch", c_int64), ("n", c_int64), ("distance", c_int64), ("square", c_void_p),
                ("basis", c_void_p), ("factor", c_void_p), ("root", c_double), ("what", c_int32), ("device", c_int32),
                ("stream", c_void_p), ("rows", c_int64)]


def factorize(what, square, basis=None, root=1.0, by="altgrad_core_factorize"):
    """The factors of a batch of squares, or of matrices."""
    squares, factors = torch.as_tensor(square, dtype=torch.float32).contiguous(), torch.zeros(square.shape)
    basis = None if basis is None else torch.as_tensor(basis, dtype=torch.float32).contiguous()
    batch, rows, n = squares.shape
    given = Factorization(ctypes.sizeof(Factorization), batch, n, rows * n, squares.data_ptr(), basis.data_ptr() if basis is not None else None,
                          factors.data_ptr(), root, what, -1, None, rows)
    function = getattr(core(), by)
    function.restype, function.argtypes = c_int32, (c_void_p, c_void_p)
    assert function(ctypes.byref(given), None) == 0
    return factors.double().numpy()


def of_condition(condition, n=24, seed=0):
    """A symmetric matrix whose eigenvalues fall from 1 to 1 / condition, as float32 holds it."""
    basis = numpy.linalg.qr(numpy.random.default_rng(seed).standard_normal((n, n)))[0]
    square = basis * numpy.geomspace(1, 1 / condition, n) @ basis.T
    return ((square + square.T) / 2).astype(numpy.float32).astype(numpy.float64)


CONDITIONS = [1, 1e2, 1e4, 1e6, 1e8]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_eigenbasis_is_orthonormal_and_diagonalizes(condition):
    square = of_condition(condition)
    q = factorize(EIGENBASIS, square[None])[0]
    rotated = q.T @ square @ q
    assert numpy.abs(q.T @ q - numpy.eye(len(q))).max() < 1e-5
    assert numpy.abs(rotated - numpy.diag(numpy.diag(rotated))).max() < 1e-5
    assert (numpy.diff(numpy.diag(rotated)) < 1e-6).all()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_qr_decomposition_leaves_an_upper_triangle(condition):
    square = of_condition(condition)
    q = factorize(ORTHONORMAL, square[None])[0]
    assert numpy.abs(q.T @ q - numpy.eye(len(q))).max() < 1e-5
    assert numpy.abs(numpy.tril(q.T @ square, -1)).max() < 1e-6


@pytest.mark.parametrize("by", ["altgrad_core_factorize", "altgrad_core_factorize_by_products"])
@pytest.mark.parametrize("rows", [24, 25, 70])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_matrices_of_more_rows_than_columns_have_orthonormal_columns_in_a_batch(condition, rows, by):
    rng = numpy.random.default_rng(0)
    batch = rng.standard_normal((3, rows, 24)).astype(numpy.float32) @ of_condition(condition).astype(numpy.float32)
    for q, matrix in zip(factorize(ORTHONORMAL, batch, by=by), batch.astype(float)):
        assert numpy.abs(q.T @ q - numpy.eye(24)).max() < 1e-5
        assert numpy.abs(numpy.tril(q.T @ matrix, -1)).max() < 1e-5
        assert numpy.abs(q @ (q.T @ matrix) - matrix).max() < 1e-5


def test_a_matrix_that_is_not_finite_has_a_basis_of_nan_and_one_of_zeros_a_finite_one():
    batch = numpy.zeros((2, 7, 3))
    batch[1, 6, 2] = numpy.inf
    zeros, infinite = factorize(ORTHONORMAL, batch)
    assert numpy.allclose(zeros.T @ zeros, numpy.eye(3)) and numpy.isnan(infinite).all()


@pytest.mark.parametrize("root", [2, 4])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_inverse_root_is_off_by_what_float32_says_of_the_eigenvalues(condition, root):
    square = of_condition(condition)
    values, vectors = numpy.linalg.eigh(square)
    wanted = vectors * numpy.maximum(values, 1e-7 * values[-1]) ** (-1 / root) @ vectors.T
    found = factorize(INVERSE_ROOT, square[None], root=root)[0]
    largest = numpy.abs(found - wanted).max() / numpy.abs(wanted).max()
    assert largest < min(max(2e-6 * condition, 1e-5), 1.0)
    assert numpy.linalg.norm(found, 2) < 1.01 * 1e-7 ** (-1 / root)  # however singular


def test_an_order_is_the_permutation_that_sorts_the_diagonal():
    square, basis = of_condition(1e3), numpy.linalg.qr(numpy.random.default_rng(1).standard_normal((24, 24)))[0]
    p = factorize(ORDER, square[None], basis[None])[0]
    q = basis @ p
    assert (numpy.sort(p, axis=0)[:-1] == 0).all() and (p.sum(axis=0) == 1).all() and (p.sum(axis=1) == 1).all()
    assert (numpy.diff(numpy.diag(q.T @ square @ q)) < 1e-6).all()


def test_a_batch_has_the_factors_of_its_squares():
    squares = numpy.stack([of_condition(10, seed=seed) for seed in range(5)])
    assert (factorize(IDENTITY, squares) == numpy.eye(24)).all()
    assert all((one == factorize(EIGENBASIS, square[None])[0]).all() for one, square in zip(factorize(EIGENBASIS, squares), squares))


@pytest.mark.parametrize("what", [EIGENBASIS, ORDER, ORTHONORMAL, INVERSE_ROOT])
def test_what_is_not_finite_has_a_factor_of_nan(what):
    square = of_condition(10)
    square[3, 4] = numpy.inf
    assert numpy.isnan(factorize(what, square[None], of_condition(10)[None])).all()
