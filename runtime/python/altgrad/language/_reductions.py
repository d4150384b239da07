"""Sums, means and largest elements of the tensor, of its units and of blocks."""

import re

from ._arithmetic import apply, check, meet
from ._errors import fail
from ._trace import COLUMN, ELEMENT, GLOBAL, HYPER, LEVELS, TENSOR, UNIT, Symbol, current

_LEVELS = {"step": GLOBAL, "tensor": TENSOR, "unit": UNIT, "row": UNIT, "column": COLUMN}


def reduce(how: str, value: Symbol, over: str) -> Symbol:
    (operand,), _, level = meet(value, element=True)
    return _reduced(how, operand, level, over, "f32", "f32")


def _reduced(how, operand, level, over, kind, result):
    if (side := operand.trace.sides.get(operand.name)) and over not in ("tensor", "step"):
        fail(f'a reduction of a square of {side} x {side} over {over!r}: a square is reduced over the "tensor" or the "step"')
    block = isinstance(over, str) and re.fullmatch(r"block<([1-9]\d*)x[1-9]\d*>", over)
    if not block and (not isinstance(over, str) or over not in _LEVELS):
        fail(f'no reduction over {over!r}: write "tensor", "row", "column", "unit" (one index of dimension 0), "step" (all tensors) or "block<1x32>"')
    differs = {COLUMN: over != "column" and (not block or block[1] == "1"), UNIT: over in ("column", "tensor", "step")}
    if level < ELEMENT and not differs.get(level, HYPER < level <= TENSOR and over == "step"):
        fail(f"a reduction of {LEVELS[level]}, which is the same for all that it is over: reduce elements, or use the number itself")
    return operand.trace.emit(f"altgrad.reduce {how} {{}} over {over}", [operand], kind, result, ELEMENT if block else _LEVELS[over])


def total(value: Symbol) -> Symbol:
    """The sum over all tensors of the step, of elements or of one number for each tensor."""
    return reduce("add", value, "step")


def average(how: str, value: Symbol, over: str) -> Symbol:
    """The sum, or the sum of squares, of a value over how many numbers it is of."""
    total = reduce(how, value, over)
    return mean(total, over, value.level, side_of(value))


def side_of(value: Symbol) -> str:
    """"rows" or "columns" of an element of a square, else ""."""
    (operand,), _, _ = meet(value, element=True)
    return operand.trace.sides.get(operand.name, "")


def mean(total: Symbol, over: str, of: int = ELEMENT, side: str = "") -> Symbol:
    """A `total` of numbers of this level, or of a square with this side, over how many there are."""
    size = extent(side) * extent(side) if side else _size(over, of)
    return total / (reduce("add", size, "step") if over == "step" else size)


def _size(over, of):
    """How many numbers of a tensor a reduction over it, or over one of its rows or columns, is of."""
    if of == UNIT:
        return extent("numel") / extent("unit")
    if of == COLUMN and not over.startswith("block"):
        return extent("columns")
    if of < UNIT:  # one; a constant would be the same for all tensors
        some = apply("maximumf", extent("numel"), 1.0)
        return some / some
    if over == "column":
        return extent("rows") * extent("batch")
    if over.startswith("block"):
        rows, columns = map(int, re.findall(r"\d+", over))
        return float(rows * columns)
    return extent("unit" if over in ("unit", "row") else "numel")


def of_condition(how: str, value: Symbol, kind: str, over: str = "tensor") -> Symbol:
    check(value)
    if value.kind != "i1":
        fail("all() and count() take a comparison of elements, such as (g > 0).count()")
    return _reduced(how, value, value.level, over, "i1", kind)


def extent(name: str) -> Symbol:
    """An extent of the parameter as a number: rows, columns, unit, or numel, all elements."""
    trace = current(f"ag.{name}")
    if name == "numel":
        return extent("rows") * extent("columns") * extent("batch")
    whole = trace.emit(f"altgrad.dim {name}", [], "i64", "i64", TENSOR)
    return trace.emit("sitofp {}", [whole], "i64 to f64", "f64", TENSOR)

