"""What a value is, computed as its lines say from numbers that are known."""

import math
import operator
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ._trace import Symbol


def _quotient(a, b):
    return a / b if b else math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _quiet(function: Callable[..., float]) -> Callable[..., float]:
    def called(*values):
        try:
            return function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan
    return called


_SAYS = {"olt": operator.lt, "ole": operator.le, "ogt": operator.gt, "oge": operator.ge, "oeq": operator.eq, "une": operator.ne,
         "slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge, "eq": operator.eq, "ne": operator.ne,
         "one": lambda a, b: a < b or a > b}
DOES = {"addf": operator.add, "subf": operator.sub, "mulf": operator.mul, "divf": _quotient, "negf": operator.neg, "addi": operator.add,
         "subi": operator.sub, "muli": operator.mul, "math.sqrt": _quiet(math.sqrt), "math.exp": _quiet(math.exp), "math.log": _quiet(math.log),
         "math.absf": abs, "math.floor": _quiet(math.floor), "math.fpowi": _quiet(operator.pow), "math.copysign": math.copysign,
         "maximumf": max, "minimumf": min, "math.fma": lambda a, b, c: a * b + c, "altgrad.lerp": lambda a, b, w: a + w * (b - a),
         "andi": operator.and_, "ori": operator.or_, "xori": operator.xor, "select": lambda c, a, b: a if c else b,
         "extf": lambda a: a, "sitofp": float, "truncf": lambda a: struct.unpack("f", struct.pack("f", a))[0]}


class Guard(NamedTuple):
    """A number of the hyper-parameters on which the path depends, and what it has to be."""

    name: str
    wanted: Any
    lines: "dict[str, str]"  # what the number is computed by

    def holds(self, numbers: "dict[str, float]") -> bool:
        return value_of(self.name, self.lines, numbers) == self.wanted


def value_of(name: str, lines: "dict[str, str]", numbers: "dict[str, float]") -> Any:
    """What a value is, computed as its lines say, from the numbers of the hyper-parameters."""
    if name in numbers:
        return numbers[name]
    word, _, rest = lines[name].partition(" ")
    if word == "constant":
        word = rest.split(" : ")[0]
        return word == "true" if word in ("true", "false") else _constant(word, rest.endswith("i64"))
    values = [value_of(operand, lines, numbers) for operand in re.findall(r"%\w+", rest)]
    return _SAYS[rest.partition(",")[0]](*values) if word in ("cmpf", "cmpi") else DOES[word](*values)


def _constant(word, whole):
    if word.startswith("0x"):
        return struct.unpack(">f" if len(word) == 10 else ">d", bytes.fromhex(word[2:]))[0]
    return int(word) if whole else float(word)


def lines_of(symbol: Symbol, numbers: "Mapping[str, Any]" = {}) -> "dict[str, str]":
    """The lines that a value is computed by, down to arguments and to what is in `numbers`."""
    found, todo = {}, [symbol.name]
    while todo:
        name = todo.pop()
        if name not in found and name not in numbers and name[1:].isdigit():
            found[name] = symbol.trace.lines[int(name[1:])].partition(" = ")[2]
            todo += re.findall(r"%\w+", found[name])
    return found
