"""What float forms should return, by fractions; see formats.py."""

import math
from fractions import Fraction

from formats import ALL, INF, MODES, NAN

TYPES = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "f16x2": "f16", "bf16x2": "bf16"}


def zero_sign(mode, signs):
    """The sign of an exact zero sum."""
    return signs[0] if len(set(signs)) == 1 else mode == "down"


def add(f, mode, a, b):
    (sa, a), (sb, b) = f.decode(a), f.decode(b)
    if NAN in (a, b) or (a == b == INF and sa != sb):
        return f.nan
    if a == INF or b == INF:
        return f.encode(sa if a == INF else sb, INF, mode)
    total = (-a if sa else a) + (-b if sb else b)
    negative = total < 0 or (total == 0 and zero_sign(mode, [sa, sb]))
    return f.encode(negative, abs(total), mode)


def fma(f, mode, a, b, c):
    (sa, a), (sb, b), (sc, c) = f.decode(a), f.decode(b), f.decode(c)
    sp = sa != sb
    if NAN in (a, b, c) or (INF in (a, b) and 0 in (a, b)):
        return f.nan
    if INF in (a, b):
        return f.nan if c == INF and sc != sp else f.encode(sp, INF, mode)
    if c == INF:
        return f.encode(sc, INF, mode)
    product = a * b
    total = (-product if sp else product) + (-c if sc else c)
    negative = total < 0 or (total == 0 and zero_sign(mode, [sp, sc]))
    return f.encode(negative, abs(total), mode)


def mul(f, mode, a, b):
    (sa, a), (sb, b) = f.decode(a), f.decode(b)
    if NAN in (a, b) or (INF in (a, b) and 0 in (a, b)):
        return f.nan
    return f.encode(sa != sb, INF if INF in (a, b) else a * b, mode)


def div(f, mode, a, b):
    (sa, a), (sb, b) = f.decode(a), f.decode(b)
    if NAN in (a, b) or a == b == INF or a == b == 0:
        return f.nan
    if a == INF or b == 0:
        return f.encode(sa != sb, INF, mode)
    return f.encode(sa != sb, Fraction(0) if b == INF else a / b, mode)


def sqrt(f, mode, a):
    negative, value = f.decode(a)
    if value == NAN or (negative and value != 0):
        return f.nan
    if value in (0, INF):
        return a
    # floor(sqrt(v) 2^k), and half a unit more when something was cut off:
    # k leaves over 100 bits below the last place of any format here.
    k = 1200
    scaled = value * 4**k
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = root * root == scaled
    return f.encode(False, Fraction(2 * root + (not exact), 2 ** (k + 1)), mode)


def rsqrt(f, a):
    """In f64 with its two roundings, as the interpreter says: the ISA bounds the error and defines no bits."""
    negative, value = f.decode(a)
    if value == NAN or (negative and value != 0):
        return f.nan
    if value in (0, INF):
        return f.encode(negative, INF if value == 0 else Fraction(0), "even")
    return f.encode(False, Fraction(1 / math.sqrt(value)), "even")


def pick(f, larger, propagate, a, b):
    (sa, x), (sb, y) = f.decode(a), f.decode(b)
    if (x == NAN and y == NAN) or (propagate and NAN in (x, y)):
        return f.nan
    if NAN in (x, y):
        return b if x == NAN else a

    def key(s, v):
        size = Fraction(10) ** 400 if v == INF else v
        return (-size, 0) if s else (size, 1)

    return (max if larger else min)((key(sa, x), a), (key(sb, y), b))[1]


def min_max(f, larger, propagate, xor_sign, a, b):
    if not xor_sign:
        return pick(f, larger, propagate, a, b)
    mask = f.sign_bit - 1
    r = pick(f, larger, propagate, a & mask, b & mask)
    return r if f.decode(r)[1] == NAN else r | ((a ^ b) & f.sign_bit)


def saturate(f, code):
    negative, value = f.decode(code)
    if value == NAN or negative:
        return 0
    return f.encode(False, Fraction(1) if value == INF else min(value, Fraction(1)), "even")


def relu(f, code):
    negative, value = f.decode(code)
    return f.nan if value == NAN else 0 if negative else code


def scalar(opcode, f, modifiers):
    """A function of codes for one element."""
    mode = next((MODES[m] for m in modifiers if m in MODES), "even")
    f = f.flushing() if "ftz" in modifiers else f
    one = f.encode(False, Fraction(1), "even")
    xor_sign, propagate = "xorsign" in modifiers, "NaN" in modifiers
    core = {
        "add": lambda a, b: add(f, mode, a, b),
        "sub": lambda a, b: add(f, mode, a, b ^ f.sign_bit),
        "mul": lambda a, b: mul(f, mode, a, b),
        "fma": lambda a, b, c: fma(f, mode, a, b, c),
        "mad": lambda a, b, c: fma(f, mode, a, b, c),
        "div": lambda a, b: div(f, mode, a, b),
        "rcp": lambda a: div(f, mode, one, a),
        "sqrt": lambda a: sqrt(f, mode, a),
        "rsqrt": lambda a: rsqrt(f, a),
        "min": lambda a, b: min_max(f, False, propagate, xor_sign, a, b),
        "max": lambda a, b: min_max(f, True, propagate, xor_sign, a, b),
        "abs": lambda a: a & (f.sign_bit - 1),
        "neg": lambda a: a ^ f.sign_bit,
        "copysign": lambda a, b: (a & f.sign_bit) | (b & (f.sign_bit - 1)),
    }[opcode]

    def run(*codes):
        if "ftz" in modifiers:
            codes = [f.flush(c) for c in codes]
        r = core(*codes)
        if "sat" in modifiers:
            r = saturate(f, r)
        return relu(f, r) if "relu" in modifiers else r

    return run


SOURCES = {"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1, "rsqrt": 1, "abs": 1, "neg": 1}


def expected(parts):
    """(destination types, source types, function) of a float form."""
    opcode, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    f = ALL[TYPES[kind]]
    if opcode == "testp":
        return ["pred"], [kind], lambda a: int(has_property(f, modifiers[0], a))
    run = scalar(opcode, f, modifiers)
    sources = [kind] * SOURCES.get(opcode, 2)
    if not kind.endswith("x2"):
        return [kind], sources, run
    halves = lambda codes, shift: [c >> shift & 0xFFFF for c in codes]
    return [kind], sources, lambda *c: run(*halves(c, 16)) << 16 | run(*halves(c, 0))


def has_property(f, name, code):
    value = f.decode(code)[1]
    finite = value not in (NAN, INF)
    return {
        "finite": finite,
        "infinite": value == INF,
        "number": value != NAN,
        "notanumber": value == NAN,
        "normal": finite and not f.is_subnormal(code),
        "subnormal": f.is_subnormal(code),
    }[name]
