"""softfma.fma is the correctly rounded a * b + c, compared with exact rational arithmetic."""

from fractions import Fraction
import itertools

import numpy as np
import pytest

from softfma import fma

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 3.0, 1.0 + 2.0**-23, 1.0 - 2.0**-24, 0.1, -0.3, 2.0**-126,
                    2.0**-149, -2.0**-149, 3 * 2.0**-149, 2.0**-126 - 2.0**-149, 2.0**-75, 2.0**-24,
                    2.0**24 + 2, -2.0**24, 2.0**64, 2.0**127, 3.4028234663852886e38,
                    -3.4028234663852886e38, np.inf, -np.inf, np.nan], np.float32)


def round_to_f32(x):
    """A non-zero Fraction to float32, ties to even, by integer arithmetic alone."""
    sign, x = (-1 if x < 0 else 1), abs(x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > x  # floor(log2 x)
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    count = round(x / unit)  # Python rounds a Fraction half to even
    if count * unit >= Fraction(2) ** 128:
        return np.float32(sign * np.inf)
    return np.float32(sign * float(count * unit))


def check(a, b, c):
    got = fma(a, b, c)
    for i, (x, y, z) in enumerate(zip(a, b, c)):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if exact:  # the sign of a zero is tested with the special values
            want = round_to_f32(exact)
            assert got[i].tobytes() == want.tobytes(), f"fma({x!r}, {y!r}, {z!r})"
        else:
            assert got[i] == 0


def test_every_triple_of_special_values():
    triples = np.array(list(itertools.product(SPECIAL, repeat=3)), np.float32)
    finite = np.isfinite(triples).all(axis=1)
    check(*triples[finite].T)
    with np.errstate(all="ignore"):  # IEEE says what infinities and NaNs give
        wide = triples[~finite].astype(np.float64)
        want = wide[:, 0] * wide[:, 1] + wide[:, 2]
    assert np.array_equal(fma(*triples[~finite].T), want.astype(np.float32), equal_nan=True)


def test_sign_of_zero():
    one, zero, tiny = np.float32(1), np.float32(0), np.float32(2.0**-149)
    assert not np.signbit(fma(one, one, -one))
    assert not np.signbit(fma(zero, -one, zero))
    assert np.signbit(fma(zero, -one, -zero))
    assert np.signbit(fma(tiny, -tiny, zero)) and fma(tiny, -tiny, zero) == 0


@pytest.mark.parametrize("spread", [2, 30, 140])
def test_random_bits(spread):
    rng = np.random.default_rng(spread)
    def draw():
        m = rng.integers(2**23, 2**24, 4000) * rng.choice([-1, 1], 4000)
        exponents = rng.integers(-spread, min(spread, 128), 4000)
        return np.ldexp(m / 2.0**24, exponents).astype(np.float32)
    check(draw(), draw(), draw())


def test_ties_and_their_neighbours():
    """Exact halves of the last place, and the same with one part in 2^46 more or less."""
    rng = np.random.default_rng(7)
    a = (1 + rng.integers(0, 2**11, 3000) * 2.0**-11).astype(np.float32)
    c = (rng.integers(2**23, 2**24, 3000) * 2.0**2).astype(np.float32)
    for nudge in (0.0, 2.0**-22, -2.0**-22):
        half = (2.0 / a.astype(np.float64)).astype(np.float32) * np.float32(1 + nudge)
        check(a, half, c)
        check(np.ones_like(a), np.full_like(a, 2.0), c)
    sub = (rng.integers(1, 2**10, 3000) * 2.0**-149).astype(np.float32)
    check(np.full_like(sub, 0.5), sub, sub)
    check(np.full_like(sub, 0.5), sub, np.full_like(sub, -(2.0**-149)))


def test_refuses_wide_operands():
    with pytest.raises(TypeError):
        fma(np.float32(1), 2.0, np.float32(3))
