"""The lines of a rule while its function runs."""

import struct
from contextvars import ContextVar
from types import CodeType
from typing import Any

from ._errors import fail, here
from ._paths import Paths

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
    """Collects operations. Equal ones are one; `places` says for each line where in the user's code it was written, or `place`
    has said for it."""

    def __init__(self, make: type[Symbol], entry_of: str | None = None) -> None:
        self.make: type[Symbol] = make
        self.entry_of: str | None = entry_of
        self.lines: list[str] = []
        self.places: list[tuple[CodeType, int, int]] = []
        self.place: tuple[CodeType, int, int] | None = None
        self.known: dict[str, Symbol] = {}
        self.given: dict[str, Symbol] = {}  # the arguments by their names in the text
        self.paths: Paths = Paths()
        self.options: dict[str, tuple[Symbol, Any]] = {}  # by the condition of an ag.when: the option that it is, and what it says
        self.sides: dict[str, str] = {}  # of what is of a square, by its name: "rows" or "columns"
        self.grams: dict[int, tuple[Symbol, Any]] = {}  # by id, x @ x.T and products of it, and what makes a square of it

    def argument(self, name: str, kind: str, level: int, role: str, side: str = "") -> Symbol:
        """An argument of the rule; `side` of a square."""
        if side:
            self.sides["%" + name] = side
        self.given["%" + name] = made = self.make(self, "%" + name, kind, level, role=role)
        return made

    def emit(self, words: str, operands: "list[Symbol]", types: str, kind: str, level: int, root: str = "") -> Symbol:
        """The result of an operation; `words` has a {} for each operand."""
        for operand in operands:
            if operand.trace is not self:
                fail("a value of another trace: a rule keeps nothing from one call of its function to the next")
        sides = {self.sides.get(operand.name, "") for operand in operands if operand.level >= UNIT and operand.kind in ("f32", "i1")}
        if len(sides) > 1:
            side = max(sides)
            fail(f"an element of a square of {side} x {side} meets one of another matrix: x @ y multiplies matrices")
        text = words.format(*[operand.name for operand in operands]) + (f" : {types}" if types else "")
        if text not in self.known:
            self.known[text] = self.make(self, f"%{len(self.lines)}", kind, level, root)
            side = square_of(kind) if kind.startswith("tensors") else next(
                filter(None, [self.sides.get(operand.name, "") for operand in operands if min(operand.level, level) >= UNIT]), "")
            if side:
                self.sides[self.known[text].name] = side
            self.lines.append(f"{self.known[text].name} = {text}")
            self.places.append(self.place or here())
        return self.known[text]

    def constant(self, number: Any, kind: str) -> Symbol:
        """A number that is written in the text."""
        if kind == "f32":
            _check_range(number)
        return self.emit(f"constant {spelled(number, kind)}", [], "" if kind == "i1" else kind, kind, CONSTANT)


def _check_range(number):
    """Refuses a finite number that is none in float32, in which elements are."""
    try:
        wide = float(number)
        narrow = struct.unpack("<f", struct.pack("<f", wide))[0]
    except OverflowError:
        fail(f"a number beyond 3.4e38, the largest that elements have: {number if isinstance(number, float) else 'a whole number'}; "
             "they are float32")
    if wide != 0 and narrow == 0:
        fail(f"{number} is 0 in float32, which elements are: the smallest magnitude is 1.4e-45")


def square_of(kind: str) -> str:
    """The side of a matrix of squares, "" of another one."""
    return kind[:-1].rpartition(" x ")[2] if " per " in kind else ""


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
