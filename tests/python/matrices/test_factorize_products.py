"""Inverse roots and bases by products alone, beside NumPy's in float64; where they are not accurate torch steps in."""

import numpy
import pytest
from test_factorize import CONDITIONS, INVERSE_ROOT, ORTHONORMAL, factorize, of_condition

from altgrad._core import core

BY = "altgrad_core_factorize_by_products"


def fallen(what, square, root=1.0):
    """(the factor, whether torch has found it)."""
    before = core().altgrad_core_fallen_back()
    return factorize(what, square[None], root=root, by=BY)[0], core().altgrad_core_fallen_back() > before


@pytest.mark.parametrize("root", [1, 2, 4])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("size", [1e-6, 1, 1e6])
def test_newton_roots_are_off_by_what_float32_says_of_the_eigenvalues(condition, root, size):
    square = size * of_condition(condition, n=48)
    values, vectors = numpy.linalg.eigh(square)
    wanted = vectors * numpy.maximum(values, 1e-7 * values[-1]) ** (-1 / root) @ vectors.T
    found, fell = fallen(INVERSE_ROOT, square, root)
    assert not fell
    assert numpy.abs(found - wanted).max() / numpy.abs(wanted).max() < min(max(2e-6 * condition, 1e-5), 1.0)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_cholesky_bases_are_orthonormal_and_leave_an_upper_triangle(condition):
    square = of_condition(condition, n=48)
    q, fell = fallen(ORTHONORMAL, square)
    assert numpy.abs(q.T @ q - numpy.eye(len(q))).max() < 1e-5
    assert numpy.abs(numpy.tril(q.T @ square, -1)).max() < 1e-6
    assert fell == (condition > 1e3)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_columns_of_a_power_step_need_no_other_basis(condition):
    basis = numpy.linalg.qr(numpy.random.default_rng(0).standard_normal((48, 48)))[0]
    square = basis * numpy.geomspace(1, 1 / condition, 48)
    q, fell = fallen(ORTHONORMAL, square)
    assert not fell
    assert numpy.abs(numpy.abs(numpy.sum(q * basis, axis=0)) - 1).max() < 1e-5


@pytest.mark.parametrize("root", [2, 4])
def test_a_square_with_eigenvalues_below_0_has_a_finite_root_of_torch(root):
    square = of_condition(10) - 0.5 * numpy.eye(24)
    found, fell = fallen(INVERSE_ROOT, square, root)
    values, vectors = numpy.linalg.eigh(square)
    wanted = vectors * numpy.maximum(values, 1e-7 * values[-1]) ** (-1 / root) @ vectors.T
    assert fell and numpy.abs(found - wanted).max() < 1e-3 * numpy.abs(wanted).max()


@pytest.mark.parametrize("what", [INVERSE_ROOT, ORTHONORMAL])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_zeros_and_few_rows_have_finite_factors(what, n):
    assert numpy.isfinite(fallen(what, numpy.zeros((n, n)), 4)[0]).all()
    assert numpy.allclose(numpy.abs(fallen(what, 16 * numpy.eye(n), 4)[0]), numpy.eye(n) * (0.5 if what == INVERSE_ROOT else 1), atol=1e-6)


def test_a_negative_definite_square_has_a_finite_root():
    found = factorize(INVERSE_ROOT, -of_condition(10)[None], root=4)[0]
    assert numpy.allclose(found, 1e-7 ** -0.25 * numpy.eye(24), rtol=1e-3, atol=1e-2)
