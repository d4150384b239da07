"""The arithmetic of rules in NumPy, one rounding per operation, each written from its definition."""

import fractions
import math
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "reference"))
from softfma import fma as fma32  # noqa: E402


def _fma64_one(a, b, c):
    """Exact rationals, one rounding; NumPy has no fused f64."""
    if not all(map(math.isfinite, (a, b, c))):
        # No finite product overflows into the infinity that c may be.
        product = a * b if not (math.isfinite(a) and math.isfinite(b)) else 0.0
        return product + c
    exact = fractions.Fraction(a) * fractions.Fraction(b) + fractions.Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fma(a, b, c):
    if a.dtype == np.float32:
        return np.asarray(fma32(a, b, c))
    out = [_fma64_one(float(x), float(y), float(z)) for x, y, z in zip(*np.broadcast_arrays(a, b, c))]
    return np.array(out, np.float64)


def _order(a, b, smaller, equal):
    """NaN if one is, -0 below +0."""
    bits = {np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}[a.dtype]
    zeros = equal(a.view(bits), b.view(bits)).view(a.dtype)
    picked = np.where(a == b, zeros, np.where((a < b) == smaller, a, b))
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), picked)


def minimum(a, b):
    return _order(*map(np.ascontiguousarray, np.broadcast_arrays(a, b)), True, np.bitwise_or)


def maximum(a, b):
    return _order(*map(np.ascontiguousarray, np.broadcast_arrays(a, b)), False, np.bitwise_and)


def power(base, exponent):
    """fpowi: repeated squaring, f64."""
    out = np.empty(len(base), np.float64)
    for i, (b, e) in enumerate(zip(base, exponent)):
        result, count = np.float64(1), abs(int(e))
        while count:
            if count & 1:
                result = result * b
            b = b * b
            count >>= 1
        out[i] = np.float64(1) / result if e < 0 else result
    return out


ORDERED = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal,
           6: np.not_equal}


def compare_floats(predicate, a, b):
    """arith.cmpf by the number of its predicate: 1-6 ordered, 7 ord, 8-13 unordered, 14 uno."""
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in (0, 15):
        return np.full(np.broadcast(a, b).shape, predicate == 15)
    if predicate in (7, 14):
        return unordered == (predicate == 14)
    if predicate < 7:
        return ORDERED[predicate](a, b) & ~unordered
    return ORDERED[predicate - 7](a, b) | unordered


def compare_integers(predicate, a, b):
    """arith.cmpi: eq ne slt sle sgt sge ult ule ugt uge."""
    signed = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    if predicate < 6:
        return signed[predicate](a, b)
    return signed[predicate - 4](a.view(np.uint64), b.view(np.uint64))


#===-- Reductions, in their one shape ------------------------------------------===#

CHUNK, LANES = 4096, 256
NEUTRAL = {"add": np.float32(0), "sumsq": np.float32(0), "max": np.float32(-np.inf), "and": True}


def join(kind, a, b):
    if kind == "max":
        return maximum(a, b)
    return a & b if kind == "and" else a + b


def accumulate(kind, partial, values):
    return np.asarray(fma32(values, values, partial)) if kind == "sumsq" else join(kind, partial, values)


def of_neighbours(kind, table):
    """[..., a power of two] to [...]: 0 and 1, 2 and 3 ..., then these."""
    while table.shape[-1] > 1:
        table = join(kind, table[..., 0::2], table[..., 1::2])
    return table[..., 0]


def tree(kind, lanes):
    """[..., a power of two] to [...]: of 256 lanes 128, 64 ... 1."""
    half = lanes.shape[-1] // 2
    while half:
        lanes = join(kind, lanes[..., :half], lanes[..., half:2 * half])
        half //= 2
    return lanes[..., 0]


def _rows(kind, accumulate, values):
    """Lane sums of one list of values; a lane without an element keeps what it has."""
    lanes = np.full(LANES, NEUTRAL[kind])
    for start in range(0, len(values), LANES):
        row = values[start:start + LANES]
        lanes[:len(row)] = accumulate(lanes[:len(row)], row)
    return lanes


def reduce_chunks(kind, values):
    """One value for each chunk of a tensor."""
    chunks = [tree(kind, _rows(kind, lambda acc, row: accumulate(kind, acc, row), values[i:i + CHUNK]))
              for i in range(0, len(values), CHUNK)]
    return np.array(chunks, values.dtype)


def fold_chunks(kind, partials):
    """One value for a tensor, from its chunks' in the same shape."""
    return tree(kind, _rows(kind, lambda acc, row: join(kind, acc, row), partials))


def reduce_step(kind, tensors):
    """One value for all tensors: their values in order, from the neutral one."""
    total = np.full(1, NEUTRAL[kind])
    for value in tensors:
        total = join(kind, total, np.full(1, value))
    return total[0]
