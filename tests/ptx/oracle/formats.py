"""Float formats over exact fractions: slow, obvious, and unlike the C++."""

import copy
from fractions import Fraction
from functools import lru_cache

NAN, INF = "nan", "inf"
MODES = {"rn": "even", "rz": "zero", "rm": "down", "rp": "up"}


class Format:
    """IEEE-like: `top` is the largest finite code, `infinity` None when absent."""

    def __init__(self, name, exponent, mantissa, top, infinity, nan):
        self.name, self.exponent, self.mantissa = name, exponent, mantissa
        self.bits = 1 + exponent + mantissa
        self.bias = 2 ** (exponent - 1) - 1
        self.top, self.infinity, self.nan = top, infinity, nan
        self.sign_bit = 1 << (self.bits - 1)
        self.decode = lru_cache(1 << 16)(self.decode)
        self.least = Fraction(2) ** (1 - self.bias - mantissa)  # the smallest subnormal
        self.flushes = False

    def flushing(self):
        """The same format, where what is below the normal numbers, rounded as if exponents had no end, becomes 0."""
        other = copy.copy(self)
        other.flushes = True
        return other

    def decode(self, code):
        """(negative, value) with value a Fraction, INF or NAN."""
        negative, magnitude = bool(code & self.sign_bit), code & (self.sign_bit - 1)
        if magnitude == self.infinity:
            return negative, INF
        if magnitude > self.top:
            return negative, NAN
        exponent, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if exponent:
            fraction += 1 << self.mantissa
            exponent -= 1
        return negative, self.least * fraction * 2**exponent

    def grid(self, value):
        """The spacing of the format at a positive value, unbounded above."""
        step = self.least
        limit = step * 2 ** (self.mantissa + 1)
        if value >= limit:  # jump near, then settle
            ratio = value / limit
            power = ratio.numerator.bit_length() - ratio.denominator.bit_length() - 1
            if power > 0:
                step, limit = step * 2**power, limit * 2**power
        while value >= limit:
            step, limit = step * 2, limit * 2
        return step

    def rounded(self, negative, value, mode):
        """A multiple of the spacing at a positive value, whatever the greatest is."""
        step = self.grid(value)
        count, rest = divmod(value, step)
        half = step / 2
        up = {
            "even": rest > half or (rest == half and count % 2 == 1),
            "zero": False,
            "down": negative and rest > 0,
            "up": not negative and rest > 0,
        }[mode]
        return (count + up) * step

    def encode(self, negative, value, mode, saturate=False):
        """Rounds a non-negative Fraction (or INF, NAN) to a code."""
        sign = self.sign_bit if negative else 0
        if value == NAN:
            return self.nan
        if value == INF:
            return sign | (self.top if saturate or self.infinity is None else self.infinity)
        normal = self.least * 2**self.mantissa
        if self.flushes and 0 < value < normal:
            above = Fraction(2) ** 200  # where no format has subnormals
            is_tiny = self.rounded(negative, value * above, mode) < normal * above
            return sign | (0 if is_tiny else self.code_of(normal))
        rounded = self.rounded(negative, value, mode)
        greatest = self.decode(self.top)[1]
        if rounded > greatest:
            finite = mode == "zero" or (mode == "down" and not negative) or (mode == "up" and negative)
            if finite or saturate or self.infinity is None:
                return sign | self.top
            return sign | self.infinity
        return sign | self.code_of(rounded)

    def code_of(self, value):
        """The magnitude code of a representable value."""
        if value == 0:
            return 0
        step = self.grid(value)
        binade = (step / self.least).numerator.bit_length() - 1
        return (binade << self.mantissa) + int(value / step)

    def is_subnormal(self, code):
        return 0 < code & (self.sign_bit - 1) < 1 << self.mantissa

    def flush(self, code):
        return code & self.sign_bit if self.is_subnormal(code) else code


F16 = Format("f16", 5, 10, 0x7BFF, 0x7C00, 0x7FFF)
BF16 = Format("bf16", 8, 7, 0x7F7F, 0x7F80, 0x7FFF)
F32 = Format("f32", 8, 23, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF)
F64 = Format("f64", 11, 52, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF8000000000000)
E4M3 = Format("e4m3", 4, 3, 0x7E, None, 0x7F)
E5M2 = Format("e5m2", 5, 2, 0x7B, 0x7C, 0x7F)
ALL = {f.name: f for f in (F16, BF16, F32, F64, E4M3, E5M2)}


def specials(f):
    """Codes where implementations go wrong, both signs."""
    one = f.bias << f.mantissa
    mantissa = (1 << f.mantissa) - 1
    codes = [0, 1, 2, 3, mantissa - 1, mantissa, mantissa + 1, mantissa + 2]  # subnormal edge
    codes += [one - 1, one, one + 1, one + 2, one - (1 << f.mantissa), one + (1 << f.mantissa)]
    codes += [one + (1 << (f.mantissa - 1)), one | mantissa]  # 1.5, just below 2
    codes += [f.top, f.top - 1, f.top - (1 << f.mantissa), one + (f.mantissa << f.mantissa)]
    codes += [one + ((f.mantissa + 1) << f.mantissa), one - ((f.mantissa + 1) << f.mantissa)]
    if f.infinity is not None:
        codes += [f.infinity, f.infinity + 1, f.infinity + (1 << (f.mantissa - 1)), f.sign_bit - 1]
    else:
        codes += [f.nan & (f.sign_bit - 1)]
    codes = [c & (f.sign_bit - 1) for c in codes]
    return sorted(set(codes + [c | f.sign_bit for c in codes]))
