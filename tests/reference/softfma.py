"""A correctly rounded f32 fused multiply-add in NumPy: references may not trust a compiler.

The product of two f32 is exact in f64. TwoSum gives the sum and its exact
error; the sum is then rounded to odd, so that the last rounding, to f32, sees
whether anything was lost. 53 >= 24 + 2 bits make that rounding the right one,
for subnormal results too.
"""

import numpy as np


def fma(a, b, c):
    """round(a * b + c) to nearest even, once; f32 in, f32 out, with broadcasting."""
    a, b, c = (np.asarray(x) for x in (a, b, c))
    for x in (a, b, c):
        if x.dtype != np.float32:
            raise TypeError(f"fma wants float32, not {x.dtype}")
    with np.errstate(all="ignore"):
        product, addend = np.broadcast_arrays(a.astype(np.float64) * b.astype(np.float64),
                                              c.astype(np.float64))
        total = product + addend
        addend_part = total - product
        error = (product - (total - addend_part)) + (addend - addend_part)
        bits = total.view(np.int64).copy()
        # An even sum that lost something moves one step towards the exact value;
        # inf and NaN have a NaN for an error and stay.
        lost = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
        away = (error > 0) == (total > 0)
        bits += np.where(lost, np.where(away, 1, -1), 0)
        return bits.view(np.float64).astype(np.float32)[()]
