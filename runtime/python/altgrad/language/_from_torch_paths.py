"""Which way the code of a step goes: what is known decides a branch, and of other numbers both sides are taken."""

import math
import operator
import re
import struct
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from ._arithmetic import choose, narrow
from ._errors import RuleError, fail
from ._trace import ELEMENT, HYPER, Symbol, Trace

_MOST_PATHS = 1024  # those of a second parameter among them, see Source._update


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
_DOES = {"addf": operator.add, "subf": operator.sub, "mulf": operator.mul, "divf": _quotient, "negf": operator.neg, "addi": operator.add,
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
    return _SAYS[rest.partition(",")[0]](*values) if word in ("cmpf", "cmpi") else _DOES[word](*values)


def _constant(word, whole):
    if word.startswith("0x"):
        return struct.unpack(">f" if len(word) == 10 else ">d", bytes.fromhex(word[2:]))[0]
    return int(word) if whole else float(word)


class Tracing:
    """The tracing of one step: its trace, the number t of the step, what hyper-parameters are, and the path taken."""

    def __init__(self, trace: Trace, step: Symbol, numbers: "dict[str, float]", rank: int) -> None:
        self.trace, self.step, self.numbers, self.rank = trace, step, numbers, rank
        self.given: dict[str, Symbol] = {}  # the parameter and its gradient
        self.guards: dict[str, Guard] = {}
        self.asks_rank: bool = False
        self.counts: dict[str, int] = {step.name: 0}  # {a whole number t + n: n}
        self.decided: tuple[bool, ...] = ()
        self.taken: list[tuple[Symbol, bool]] = []

    def count(self, distance: int) -> Symbol:
        """The number of the step plus a distance."""
        made = self.step if distance == 0 else self.step + distance if distance > 0 else self.step - -distance
        self.counts[made.name] = distance
        return made

    def known(self, symbol: Symbol) -> Any:
        """What follows from hyper-parameters alone, as they are now; the rule is then one for this value."""
        lines = self._lines_of(symbol)
        value = value_of(symbol.name, lines, self.numbers)
        if symbol.level == HYPER:
            self.guards[symbol.name] = Guard(symbol.name, value, lines)
        return value

    def decide(self, symbol: Symbol) -> bool:
        """What an `if` on this value does."""
        if symbol.kind != "i1":
            symbol = symbol != 0
        if symbol.level <= HYPER:
            return bool(self.known(symbol))
        if symbol.level == ELEMENT:
            fail("a branch on elements: it has no one side for all of them, and torch.where(condition, a, b) has")
        for other, side in self.taken:
            if other.name == symbol.name:
                return side
        side = self.decided[len(self.taken)] if len(self.taken) < len(self.decided) else True
        self.taken.append((symbol, side))
        return side

    def _lines_of(self, symbol):
        found, todo = {}, [symbol.name]
        while todo:
            name = todo.pop()
            if name not in found and name not in self.numbers:
                found[name] = self.trace.lines[int(name[1:])].partition(" = ")[2]
                todo += re.findall(r"%\w+", found[name])
        return found


running: "ContextVar[Tracing]" = ContextVar("running")


def explore(run: Tracing, body: "Callable[[], dict[str, Symbol]]") -> "dict[str, Symbol]":
    """What `body` makes, over all paths that its branches on numbers of the step and the tensor have."""
    paths, todo, wrong = [], [()], None
    while todo:
        run.decided, run.taken = todo.pop(), []
        try:
            paths.append((body(), list(run.taken)))
        except RuleError:
            raise
        except Exception as error:  # a path that the code itself refuses, such as a step that is negative
            if not run.taken:
                raise
            wrong = error
        if len(paths) + len(todo) > _MOST_PATHS:
            fail(f"more than {_MOST_PATHS} paths by branches on the step or on numbers of tensors")
        sides = [side for _, side in run.taken]
        todo += [(*sides[:depth], not sides[depth]) for depth in range(len(run.decided), len(sides))]
    if not paths:
        raise wrong
    return _join(paths, 0)


def _join(paths, depth):
    if len(paths) == 1:
        return paths[0][0]
    condition = paths[0][1][depth][0]
    sides = [[path for path in paths if path[1][depth][1] is side] for side in (True, False)]
    if not all(sides):
        return _join(sides[0] or sides[1], depth + 1)
    return either(lambda: condition, *[_join(side, depth + 1) for side in sides])


def either(condition: "Callable[[], Symbol]", yes: "dict[str, Symbol]", no: "dict[str, Symbol]") -> "dict[str, Symbol]":
    """The values of one side or the other; those that are the same on both need no choice."""
    trace, made = running.get().trace, {}
    for key in yes:
        a, b = narrow(yes[key], trace), narrow(no[key], trace)
        made[key] = a if a.name == b.name else choose(condition(), a, b)
    return made
