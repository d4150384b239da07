"""The lines of a rule while its function runs."""

from contextvars import ContextVar
from types import CodeType
from typing import Any

from ._errors import fail, here

# Where a value may differ: it is one number for the lower of these, and another for each of the higher ones. What is of units
# meets what is of columns as an element.
CONSTANT, GLOBAL, HYPER, STEP, TENSOR, UNIT, COLUMN, ELEMENT = range(8)
LEVELS = "a constant", "a number of all tensors", "a number of the hyper-parameters", "a number of the step", "a number of the tensor", "a number of the unit", "a number of the column", "an element"

now: "ContextVar[Trace | None]" = ContextVar("now", default=None)


class Symbol:
    """A value by its name in the text. Its kind is f32, f64, i64, i1, or a matrix: tensors<bf16>, squares<bf16>."""

    __slots__ = ("trace", "name", "kind", "level", "root", "role")

    def __init__(self, trace: "Trace", name: str, kind: str, level: int, root: str = "", role: str = "") -> None:
        for slot, value in zip(Symbol.__slots__, (trace, name, kind, level, root, role)):
            object.__setattr__(self, slot, value)  # Value refuses attributes that a user sets


class Trace:
    """Collects operations. Equal ones are one; `places` says for each line where in the user's code it was written."""

    def __init__(self, make: type[Symbol]) -> None:
        self.make: type[Symbol] = make
        self.lines: list[str] = []
        self.places: list[tuple[CodeType, int, int]] = []
        self.known: dict[str, Symbol] = {}

    def argument(self, name: str, kind: str, level: int, role: str) -> Symbol:
        """An argument of the rule."""
        return self.make(self, "%" + name, kind, level, role=role)

    def emit(self, words: str, operands: "list[Symbol]", types: str, kind: str, level: int, root: str = "") -> Symbol:
        """The result of an operation; `words` has a {} for each operand."""
        for operand in operands:
            if operand.trace is not self:
                fail("a value of another trace: a rule keeps nothing from one call of its function to the next")
        text = words.format(*[operand.name for operand in operands]) + (f" : {types}" if types else "")
        if text not in self.known:
            self.known[text] = self.make(self, f"%{len(self.lines)}", kind, level, root)
            self.lines.append(f"{self.known[text].name} = {text}")
            self.places.append(here())
        return self.known[text]

    def constant(self, number: Any, kind: str) -> Symbol:
        """A number that is written in the text."""
        return self.emit(f"constant {spelled(number, kind)}", [], "" if kind == "i1" else kind, kind, CONSTANT)


_SPECIAL = {("inf", "f32"): "0x7F800000", ("-inf", "f32"): "0xFF800000", ("nan", "f32"): "0x7FC00000",
            ("inf", "f64"): "0x7FF0000000000000", ("-inf", "f64"): "0xFFF0000000000000", ("nan", "f64"): "0x7FF8000000000000"}


def spelled(number: Any, kind: str = "f64") -> str:
    """A number as the text has it: digits on both sides of the point."""
    if kind == "i1":
        return "true" if number else "false"
    if kind == "i64":
        return str(int(number))
    text = repr(float(number))
    mantissa, e, exponent = text.partition("e")
    return _SPECIAL.get((text, kind), mantissa + ".0" * ("." not in mantissa) + e + exponent.lstrip("+"))


def current(what: str) -> Trace:
    trace = now.get()
    if trace is None:
        fail(f"{what} belongs into the function of a rule, under @ag.rule")
    return trace
