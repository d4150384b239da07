"""Sums, means and largest elements of the tensor, of its units and of blocks."""

import re

from ._arithmetic import check, meet
from ._errors import fail
from ._trace import ELEMENT, GLOBAL, HYPER, LEVELS, TENSOR, UNIT, Symbol, current

_LEVELS = {"step": GLOBAL, "tensor": TENSOR, "unit": UNIT, "row": UNIT, "column": ELEMENT}


def reduce(how: str, value: Symbol, over: str) -> Symbol:
    block = isinstance(over, str) and re.fullmatch(r"block<[1-9]\d*x[1-9]\d*>", over)
    if not block and (not isinstance(over, str) or over not in _LEVELS):
        fail(f'no reduction over {over!r}: write "tensor", "row", "column", "unit" (one index of dimension 0), "step" (all tensors) or "block<1x32>"')
    (operand,), _, level = meet(value, element=over in ("step", "tensor"))
    of_tensors = over == "step" and how == "add" and HYPER < level <= TENSOR
    of_units = over == "tensor" and how == "add" and level == UNIT
    if level < ELEMENT and not of_tensors and not of_units:
        fail(f"a reduction of {LEVELS[level]}, which is the same for all elements of a unit: reduce elements, or use the number itself")
    return value.trace.emit(f"altgrad.reduce {how} {{}} over {over}", [operand], "f32", "f32",
                            ELEMENT if block else _LEVELS[over])


def is_of_units(value: Symbol) -> bool:
    return value.level == UNIT


def total(value: Symbol) -> Symbol:
    """The sum over all tensors of the step, of elements or of one number for each tensor."""
    return reduce("add", value, "step")


def mean(total: Symbol, over: str, of_units: bool = False) -> Symbol:
    """What of a `total` is each one's; `of_units`: it is of numbers of units."""
    if of_units:
        return total / (extent("numel") / extent("unit"))
    if over == "tensor":
        return total / extent("numel")
    if over in ("unit", "row"):
        return total / extent("unit")
    if over == "column":
        return total / (extent("rows") * extent("batch"))
    if over == "step":
        return total / reduce("add", extent("numel"), "step")
    rows, columns = map(int, re.findall(r"\d+", over))
    return total / float(rows * columns)


def of_condition(how: str, value: Symbol, kind: str) -> Symbol:
    check(value)
    if value.kind != "i1" or value.level < ELEMENT:
        fail("all() and count() take a comparison of elements, such as (g > 0).count()")
    return value.trace.emit(f"altgrad.reduce {how} {{}} over tensor", [value], "i1", kind, TENSOR)


def extent(name: str) -> Symbol:
    """An extent of the parameter as a number: rows, columns, unit, or numel, all elements."""
    trace = current(f"ag.{name}")
    if name == "numel":
        return extent("rows") * extent("columns") * extent("batch")
    whole = trace.emit(f"altgrad.dim {name}", [], "i64", "i64", TENSOR)
    return trace.emit("sitofp {}", [whole], "i64 to f64", "f64", TENSOR)

