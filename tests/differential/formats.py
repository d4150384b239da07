"""Encoding and decoding of stored numbers, written from the IEEE 754 and OCP definitions in integers and f64."""

import dataclasses
import re

import numpy as np


@dataclasses.dataclass(frozen=True)
class Format:
    exponent: int
    mantissa: int
    bias: int
    inf: bool
    nan: str  # none, all_ones or ieee

    @property
    def bits(self):
        return 1 + self.exponent + self.mantissa

    @property
    def code(self):
        return {8: np.uint8, 16: np.uint16, 32: np.uint32}[self.bits]

    @property
    def nan_code(self):
        """One canonical NaN without a sign; 0 in a format that has none."""
        if self.nan == "none":
            return 0
        if self.nan == "ieee" and self.bits > 8:
            return (((1 << self.exponent) - 1) << self.mantissa) | (1 << (self.mantissa - 1))
        return (1 << (self.bits - 1)) - 1


KNOWN = {"f32": Format(8, 23, 127, True, "ieee"), "bf16": Format(8, 7, 127, True, "ieee"),
         "f16": Format(5, 10, 15, True, "ieee"), "ocp.e4m3fn": Format(4, 3, 7, False, "all_ones"),
         "ocp.e5m2": Format(5, 2, 15, True, "ieee")}


def named(text):
    """A format by its name, or by its numbers as the dialect writes them."""
    if text in KNOWN:
        return KNOWN[text]
    words = dict(re.findall(r"(\w+) = (-?\w+)", text))
    return Format(int(words["exponent"]), int(words["mantissa"]), int(words["bias"]),
                  words["inf"] == "true", words["nan"])


def of_list(kind):
    """The format of `!altgrad.tensors<...>` and the elements that share a stored value."""
    inside, per, block = kind.removeprefix("!altgrad.tensors<")[:-1].partition(" per ")
    return named(inside), int(block) if per else 1


_tables = {}


def _number(form, magnitude):
    """The f64 that a code without its sign stands for."""
    field, fraction = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    top = (1 << form.exponent) - 1
    if form.nan == "ieee" and field == top:
        return float("nan") if fraction else float("inf")
    if form.nan == "all_ones" and magnitude == (1 << (form.bits - 1)) - 1:
        return float("nan")
    return _plain(form, magnitude)


def _plain(form, magnitude):
    """The same where no code is special."""
    field, fraction = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    scale = 2.0 ** -form.mantissa
    if form.exponent == 0:
        return fraction * scale
    if field == 0:
        return fraction * scale * 2.0 ** (1 - form.bias)
    return (1 + fraction * scale) * 2.0 ** (field - form.bias)


def _table(form):
    """Every finite magnitude in order of its code, as f64: an 8- or 16-bit format by enumeration."""
    if form not in _tables:
        values = np.array([_number(form, c) for c in range(1 << (form.bits - 1))])
        _tables[form] = values
    return _tables[form]


def decode(form, codes):
    """f32 numbers; every NaN is the canonical one."""
    if form.bits == 32:
        return canonical(codes.view(np.float32))
    sign_bit = 1 << (form.bits - 1)
    values = _table(form)[codes & (sign_bit - 1)].astype(np.float32)
    return canonical(np.where(codes & sign_bit != 0, -values, values).astype(np.float32))


def canonical(numbers):
    return np.where(np.isnan(numbers), np.uint32(0x7fc00000).view(np.float32),
                    numbers).astype(np.float32)


def encode(form, numbers, overflow="nonfinite"):
    """Codes: the nearest number, ties to the even code, then the overflow rule."""
    numbers = np.asarray(numbers, np.float32)
    if form.bits == 32:
        return canonical(numbers).view(np.uint32).copy()
    values = _table(form)
    finite = int(np.flatnonzero(np.isfinite(values)).max())
    grid = values[:finite + 1]
    with np.errstate(all="ignore"):
        x = np.abs(numbers.astype(np.float64))
        # What the next code would be, were it a number: overflow begins half-way there.
        extended = np.append(grid, _plain(form, finite + 1))
        low = np.clip(np.searchsorted(extended, x, side="right") - 1, 0, finite)
        below, above = x - extended[low], extended[low + 1] - x
        up = (above < below) | ((above == below) & (low & 1 == 1))
        code = np.where(np.isnan(x), 0, low + up).astype(np.int64)
    over = code > finite
    saturated = finite if overflow == "saturate" or form.nan == "none" else None
    infinite = ((1 << form.exponent) - 1) << form.mantissa if form.inf else form.nan_code
    code = np.where(over, infinite if saturated is None else saturated, code)
    sign = np.where(np.signbit(numbers), 1 << (form.bits - 1), 0)
    unsigned = over & (saturated is None) & (not form.inf)  # became the NaN, which has no sign
    code = np.where(unsigned, code, code | sign)
    return np.where(np.isnan(numbers), form.nan_code, code).astype(form.code)
