"""Checks the fraction oracles against numpy and ml_dtypes, which share no code with them."""

import math
import random
import sys

import ml_dtypes
import numpy as np

import floats
from formats import ALL, BF16, E4M3, E5M2, F16, F32, F64, INF, NAN, specials

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
failures = []


def value(f, codes):
    return np.array(codes, dtype=UNSIGNED[f.bits]).view(DTYPES[f.name])


def codes(f, values):
    return np.asarray(values).astype(DTYPES[f.name]).view(UNSIGNED[f.bits]).tolist()


def agree(what, f, got, want):
    """Equal bits, or both NaN: payloads are the format's own business."""
    for g, w, n in zip(got, want, range(len(want))):
        if g != w and not (f.decode(g)[1] == NAN and f.decode(w)[1] == NAN):
            failures.append(f"{what} {f.name} case {n}: {g:#x}, numpy says {w:#x}")
            return


def draws(f, count, seed):
    r = random.Random(seed)
    return specials(f) + [r.getrandbits(f.bits) for _ in range(count)]


def check_decode():
    for f in (F16, BF16, E4M3, E5M2):
        every = list(range(1 << f.bits))
        for code, number in zip(every, value(f, every).astype(np.float64).tolist()):
            negative, exact = f.decode(code)
            if exact == NAN:
                good = math.isnan(number)
            else:
                size = math.inf if exact == INF else float(exact)
                good = abs(number) == size and (math.copysign(1, number) < 0) == negative
            if not good:
                failures.append(f"decode {f.name} {code:#x}")


def check_narrowing():
    """Rounding to nearest from f32; numpy overflows to infinity or NaN as the formats do."""
    source = draws(F32, 5000, 1)
    for f in (F16, BF16, E4M3, E5M2):
        got = [f.encode(*F32.decode(c), "even") for c in source]
        want = codes(f, value(F32, source))
        if f is E4M3:  # ours saturates where ml_dtypes makes NaN
            pairs = [(g, w) for g, w, c in zip(got, want, source) if f.decode(w)[1] != NAN]
            got, want = [p[0] for p in pairs], [p[1] for p in pairs]
        agree("narrow", f, got, want)


def check_arithmetic():
    """numpy computes halves in f32 and rounds again: harmless, 24 >= 2 * 11 + 2."""
    for f, count in ((F32, 4000), (F64, 1000), (F16, 4000)):
        a, b = draws(f, count, 2), draws(f, count, 3)
        random.Random(4).shuffle(b)
        x, y = value(f, a), value(f, b)
        for name, result in (("add", x + y), ("mul", x * y), ("div", x / y)):
            agree(name, f, [getattr(floats, name)(f, "even", p, q) for p, q in zip(a, b)], codes(f, result))
        agree("sqrt", f, [floats.sqrt(f, "even", p) for p in a], codes(f, np.sqrt(x)))


def check_fma():
    """math.fma is new in Python 3.13; in f64 products of f32 are exact, and a sum that
    fits 53 bits is exact as well."""
    r = random.Random(5)
    for _ in range(20000):
        a, b, c = ((F32.bias << 23) + r.randrange(-4 << 23, 4 << 23) for _ in range(3))
        x, y, z = (float(v) for v in value(F32, [a, b, c]))
        total = x * y + z
        if total - x * y != z or total - z != x * y:
            continue  # not exact in f64
        want = codes(F32, [np.float64(total)])[0]
        if floats.fma(F32, "even", a, b, c) != want:
            failures.append(f"fma {a:#x} {b:#x} {c:#x}")
            return


def main():
    np.seterr(all="ignore")
    assert set(DTYPES) == set(ALL)
    for check in (check_decode, check_narrowing, check_arithmetic, check_fma):
        check()
    for failure in failures[:20]:
        print("FAIL", failure)
    print("oracles agree with numpy and ml_dtypes" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
