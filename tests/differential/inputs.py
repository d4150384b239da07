"""Test data: sizes around every boundary, codes with all the unpleasant numbers among plain ones."""

import numpy as np

import formats

SIZES = [*range(34), 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 8197]
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38,
                    3.4028235e38, -3.4028235e38, 65504, 65520, 448, 464, 464.00003, 480, 57344,
                    61439.996, 61440, 2.0**-9, 2.0**-10, 2.0**-16, 2.0**-17, 1, -1, 6e-8, -2.98e-8,
                    1e-20, 1e20, 0.1, 2.0**-24], np.float32)


def numbers(rng, count, spread=6, special=0.0, positive=False):
    """Plain numbers over some binades, and a share of special ones."""
    x = rng.standard_normal(count) * np.exp2(rng.uniform(-spread, spread / 2, count))
    x = x.astype(np.float32)
    where = rng.random(count) < special
    x[where] = rng.choice(SPECIAL, int(where.sum()))
    return np.abs(x) if positive else x


def codes(rng, form, count, special=0.0, positive=False):
    """As stored: numbers rounded to the format, and raw codes, NaN payloads among them."""
    out = formats.encode(form, numbers(rng, count, 6, special, positive))
    if special and not positive:
        where = rng.random(count) < special / 2
        out[where] = rng.integers(0, 1 << form.bits, int(where.sum())).astype(form.code)
    return out


def awkward(rng, count, special):
    """f32 numbers with few bits, the middles of narrower formats among them, and neighbours of such."""
    x = numbers(rng, count, 12, special)
    if special:
        x[rng.random(count) < special] = np.nan
        x[rng.random(count) < special] = np.inf
    x = x.view(np.uint32)
    kept = rng.integers(0, 13, count).astype(np.uint32)
    short = (x >> (23 - kept) << (23 - kept)) + rng.choice([0, 0, 0, 1, -1], count).astype(np.uint32)
    return np.where((kept < 12) & np.isfinite(x.view(np.float32)), short, x).view(np.float32)


def rows_of(sizes, groups, rng):
    """Sizes in random order over the groups."""
    sizes = [int(n) for n in rng.permutation(np.array(sizes))]
    return sizes, [i % groups for i in range(len(sizes))]
