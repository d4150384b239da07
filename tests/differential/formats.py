"""Encoding and decoding of stored numbers, written from the IEEE 754 and OCP definitions in integers and f64."""

import dataclasses
import re

import numpy as np

import books


@dataclasses.dataclass(frozen=True)
class Format:
    exponent: int
    mantissa: int
    bias: int
    inf: bool
    nan: str  # none, all_ones or ieee
    signed: bool = True
    zero: bool = True
    ties: str = "even"  # even, down or up
    complement: bool = False
    book: str = ""  # codes are places in its table

    @property
    def bits(self):
        return self.signed + self.exponent + self.mantissa

    @property
    def magnitudes(self):
        return 1 << (self.exponent + self.mantissa)

    @property
    def code(self):
        return np.uint8 if self.bits <= 8 else np.uint16 if self.bits <= 16 else np.uint32

    @property
    def nan_code(self):
        """One canonical NaN without a sign; the code of 0 in a format that has none."""
        if self.book:
            return books.zero_of(self.book)
        if self.nan == "none":
            return 0
        if self.nan == "ieee" and self.bits > 8:
            return (((1 << self.exponent) - 1) << self.mantissa) | (1 << (self.mantissa - 1))
        return self.magnitudes - 1


KNOWN = {"f32": Format(8, 23, 127, True, "ieee"), "bf16": Format(8, 7, 127, True, "ieee"),
         "f16": Format(5, 10, 15, True, "ieee"), "ocp.e4m3fn": Format(4, 3, 7, False, "all_ones"),
         "ocp.e5m2": Format(5, 2, 15, True, "ieee"), "altgrad.e5m2": Format(5, 2, 15, True, "ieee"),
         "altgrad.e5m10": Format(5, 10, 15, True, "ieee"),
         "ocp.e8m0": Format(8, 0, 127, False, "all_ones", signed=False, zero=False, ties="up"),
         "altgrad.e3m4b1": Format(3, 4, 1, False, "none"),
         "altgrad.e7m0": Format(7, 0, 63, False, "none", ties="down"),
         "int8": Format(0, 7, -7, False, "none", complement=True),
         "int16": Format(0, 15, -15, False, "none", complement=True),
         "uint8": Format(0, 8, -8, False, "none", signed=False)}
KNOWN.update({name: Format(0, bits, 0, False, "none", signed=False, book=name)
              for name, bits in (("bnb8", 8), ("bnb8u", 8), ("torchao4", 4), ("torchao4u", 4))})
for _name in ("ocp.e2m3 ocp.e3m2 ocp.e2m1 altgrad.e0m7 altgrad.e1m6 altgrad.e2m5 altgrad.e3m4 altgrad.e4m3 altgrad.e6m1 "
              "altgrad.e0m15 altgrad.e1m14 altgrad.e2m13 altgrad.e3m12 altgrad.e4m11 altgrad.e6m9 altgrad.e7m8").split():
    _e, _m = map(int, re.findall(r"\d+", _name))
    KNOWN[_name] = Format(_e, _m, 2 ** (_e - 1) - 1 if _e > 1 else 0, False, "none")


def named(text):
    """A format by its name, or by its numbers as the dialect writes them."""
    if text in KNOWN:
        return KNOWN[text]
    words = dict(re.findall(r"(\w+) = (-?\w+)", text))
    return Format(int(words["exponent"]), int(words["mantissa"]), int(words["bias"]),
                  words["inf"] == "true", words["nan"], words.get("signed") != "false",
                  words.get("zero") != "false", words.get("ties", "even"),
                  words.get("complement") == "true")


def of_list(kind):
    """The format of `!altgrad.tensors<...>`, the elements that share a stored value, and the columns that one over rows spans."""
    inside, per, block = kind.removeprefix("!altgrad.tensors<")[:-1].removesuffix(" packed").partition(" per ")
    rows, columns = map(int, block.split("x")) if per and " x " not in block else (1, 1)  # rows x rows has one each
    return named(inside), max(rows, columns), columns if rows > 1 else 0


def shifts_of(kind):
    """Where a packed list has the codes of even and odd elements in a byte; None for any other list."""
    if not kind.endswith(" packed>"):
        return None
    return (4, 0) if kind.startswith("!altgrad.tensors<torchao4") else (0, 4)


_tables = {}


def _number(form, magnitude):
    """The f64 that a code without its sign stands for."""
    field, fraction = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    top = (1 << form.exponent) - 1
    if form.nan == "ieee" and field == top:
        return float("nan") if fraction else float("inf")
    if form.nan == "all_ones" and magnitude == form.magnitudes - 1:
        return float("nan")
    return _plain(form, magnitude)


def _plain(form, magnitude):
    """The same where no code is special."""
    field, fraction = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    scale = 2.0 ** -form.mantissa
    if form.exponent == 0:
        return magnitude * scale * 2.0 ** -form.bias
    if not form.zero:
        return 2.0 ** (magnitude - form.bias)
    if field == 0:
        return fraction * scale * 2.0 ** (1 - form.bias)
    return (1 + fraction * scale) * 2.0 ** (field - form.bias)


def _table(form):
    """Every finite magnitude in order of its code, as f64: an 8- or 16-bit format by enumeration."""
    if form not in _tables:
        values = np.array([_number(form, c) for c in range(form.magnitudes)])
        _tables[form] = values
    return _tables[form]


def decode(form, codes):
    """f32 numbers; every NaN is the canonical one. Bits above a code say nothing."""
    if form.bits == 32:
        return canonical(codes.view(np.float32))
    codes = codes.astype(np.int64) & ((1 << form.bits) - 1)
    if form.book:
        return books.table(form.book)[codes]
    if form.complement:
        return (np.where(codes >= form.magnitudes, codes - 2 * form.magnitudes, codes)
                * _plain(form, 1)).astype(np.float32)
    values = _table(form)[codes & (form.magnitudes - 1)].astype(np.float32)
    negative = form.signed & (codes & form.magnitudes != 0)
    return canonical(np.where(negative, -values, values).astype(np.float32))


def canonical(numbers):
    return np.where(np.isnan(numbers), np.uint32(0x7fc00000).view(np.float32),
                    numbers).astype(np.float32)


def encode(form, numbers, overflow="nonfinite"):
    """Codes: the nearest number, ties as the format has them, then the overflow rule."""
    numbers = np.asarray(numbers, np.float32)
    if form.bits == 32:
        return canonical(numbers).view(np.uint32).copy()
    if form.book:
        return books.encode(form.book, numbers)
    negative, nan = np.signbit(numbers), np.isnan(numbers)
    values = _table(form)
    finite = int(np.flatnonzero(np.isfinite(values)).max())
    # What the next codes would be, were they numbers: overflow begins half-way there. Below a
    # format without a zero lies one.
    extended = np.concatenate([[] if form.zero else [0.0], values[:finite + 1],
                               [_plain(form, finite + 1), _plain(form, finite + 2)]])
    first = 0 if form.zero else -1
    with np.errstate(all="ignore"):
        x = np.abs(numbers.astype(np.float64))
        low = np.clip(np.searchsorted(extended, x, side="right") - 1, 0, len(extended) - 2)
        below, above = x - extended[low], extended[low + 1] - x
        tie = {"even": (low + first) & 1 == 1, "down": False, "up": True}[form.ties]
        code = np.where(nan, 0, first + low + ((above < below) | ((above == below) & tie)))
    code = np.where(np.isinf(x), finite + 2, code).astype(np.int64)
    too_low = negative & (not form.signed) & (code > first)
    over = code > finite + (form.complement & negative)
    code = np.where(over, finite + (form.complement & negative), np.maximum(code, 0))
    if overflow == "nonfinite" and form.nan != "none":
        infinite = ((1 << form.exponent) - 1) << form.mantissa if form.inf else form.nan_code
        code = np.where(over, infinite, code)
        nan = nan | too_low | (over & (not form.inf))  # the NaN has no sign
    if form.complement:
        code = np.where(negative, -code, code) & (2 * form.magnitudes - 1)
    elif form.signed:
        code = np.where(negative, code | form.magnitudes, code)
    code = np.where(too_low, 0, code)
    return np.where(nan, form.nan_code, code).astype(form.code)


def split(numbers, lower):
    """(upper, lower) parts of f32 numbers in bf16 and int16: the upper half, one more where the lower one is negative;
    in int8 the error of rounding to bf16 in 127ths of half a place (definitions 5.6 and 5.7)."""
    words = canonical(numbers).view(np.uint32)
    if lower.bits == 8:
        upper = encode(KNOWN["bf16"], numbers)
        rounded = decode(KNOWN["bf16"], upper).astype(np.float64)
        with np.errstate(all="ignore"):
            error = np.where(np.isfinite(rounded), numbers - rounded, 0)
            share = 127 * np.clip(2 * error / _places(rounded), -1, 1)
        return upper, np.copysign(np.floor(np.abs(share) + 0.5), share).astype(np.int8).view(np.uint8)
    low = (words & 0xffff).astype(np.uint16)
    return ((words >> 16) + (low.view(np.int16) < 0)).astype(np.uint16), low


def _places(numbers):
    """The distance of bf16 numbers at some of them, by exponents; at zero that of subnormal ones."""
    _, exponent = np.frexp(np.where(numbers == 0, 2.0**-126, np.where(np.isfinite(numbers), numbers, 1)))
    return np.exp2(np.maximum(exponent - 1, -126) - 7.0) if len(numbers) else numbers


def join(upper, lower):
    """The f32 numbers of parts; of an int16 one the upper one alone where that is no number."""
    alone = (upper.astype(np.uint32) << 16).view(np.float32)
    if lower.dtype == np.uint8:
        with np.errstate(all="ignore"):
            part = lower.view(np.int8).astype(np.float32) / np.float32(127) * (_places(alone.astype(np.float64)) / 2)
            return canonical(np.where(np.isfinite(alone), alone + part.astype(np.float32), alone))
    low = lower.astype(np.uint16).view(np.int16).astype(np.int64)
    high = np.where(low < 0, upper.astype(np.int64) - 1, upper) & 0xffff
    both = (high << 16 | (low & 0xffff)).astype(np.uint32).view(np.float32)
    return canonical(np.where(np.isnan(both), alone, both))
