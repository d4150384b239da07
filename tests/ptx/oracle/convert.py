"""What cvt and moves should return."""

from fractions import Fraction

from floats import relu, saturate
from formats import ALL, INF, MODES, NAN
from integers import number, saturated, width

INTEGER_MODES = {"rni": "even", "rzi": "zero", "rmi": "down", "rpi": "up"}


def is_integer(kind):
    return kind[0] in "us" and kind[1:].isdigit()


def rounded(negative, value, mode):
    """The integer nearest to a signed fraction, as a signed Python int."""
    whole, rest = divmod(value, 1)
    half = Fraction(1, 2)
    up = {
        "even": rest > half or (rest == half and whole % 2 == 1),
        "zero": False,
        "down": negative and rest > 0,
        "up": not negative and rest > 0,
    }[mode]
    return (-1 if negative else 1) * (whole + up)


def float_to_integer(f, kind, mode, code):
    negative, value = f.decode(code)
    bits = width(kind)
    if value == NAN:
        return 1 << (bits - 1) if f.bits == 64 or bits == 64 else 0
    if value == INF:
        value = Fraction(10) ** 400
    return saturated(rounded(negative, value, mode), kind)


def between(source, target, modifiers, mode, integral, code):
    if "ftz" in modifiers and source.bits == 32 and target.name != "f16":  # as an H100 does, against the ISA
        code = source.flush(code)
    if "ftz" in modifiers and target.bits == 32:
        target = target.flushing()
    negative, value = source.decode(code)
    if integral and value not in (NAN, INF):
        value = Fraction(abs(rounded(negative, value, mode)))
    r = target.encode(negative, value, mode, saturate="satfinite" in modifiers)
    if "sat" in modifiers:
        r = saturate(target, r)
    return relu(target, r) if "relu" in modifiers else r


def widened(value, kind):
    """Destination registers here are the next of 16, 32, 64 bits: 8 grows."""
    return number(value, kind) & 0xFFFF if width(kind) == 8 else number(value, kind)


def packed_integers(parts):
    kind = parts[3]
    bits = width(kind)
    clamp = lambda v: saturated(number(v, "s32"), kind) & ((1 << bits) - 1)
    pair = lambda a, b: clamp(a) << bits | clamp(b)
    if bits == 16:
        return ["b32"], ["s32", "s32"], pair
    return ["b32"], ["s32", "s32", "b32"], lambda a, b, c: c << 16 | pair(a, b)


def expected(parts):
    if parts[1] == "pack":
        return packed_integers(parts)
    target, source, modifiers = parts[-2], parts[-1], parts[1:-2]
    if is_integer(target) and is_integer(source):
        limit = (lambda v: saturated(v, target)) if "sat" in modifiers else lambda v: v
        return [target], [source], lambda a: widened(limit(number(a, source)), target)
    if is_integer(target):
        f = ALL[source]
        mode = next(INTEGER_MODES[m] for m in modifiers if m in INTEGER_MODES)
        flush = f.flush if "ftz" in modifiers else lambda c: c
        return [target], [source], lambda a: widened(float_to_integer(f, target, mode, flush(a)), target)
    mode = next((MODES[m] for m in modifiers if m in MODES), "even")
    if is_integer(source):
        f = ALL[target]

        def from_integer(a):
            v = number(a, source)
            r = f.encode(v < 0, Fraction(abs(v)), mode)
            return saturate(f, r) if "sat" in modifiers else r

        return [target], [source], from_integer
    return float_pair(target, source, modifiers, mode)


def float_pair(target, source, modifiers, mode):
    single = lambda kind: kind[:-2] if kind.endswith("x2") else kind
    t, s = ALL[single(target)], ALL[single(source)]
    integral = next((INTEGER_MODES[m] for m in modifiers if m in INTEGER_MODES), None)
    one = lambda c: between(s, t, modifiers, integral or mode, integral is not None, c)
    if not target.endswith("x2"):
        return [target], [source], one
    join = lambda a, b: one(a) << t.bits | one(b)
    if not source.endswith("x2"):
        return [target], [source, source], join
    mask = (1 << s.bits) - 1
    return [target], [source], lambda a: join(a >> s.bits, a & mask)
