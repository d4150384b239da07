"""Which way the code of a step goes: what is known decides a branch, and of other numbers both sides are taken."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ._arithmetic import choose, narrow
from ._errors import fail, location_in
from ._known import Guard, lines_of, value_of
from ._paths import Paths
from ._trace import ELEMENT, HYPER, TENSOR, Symbol, Trace


class Tracing(Paths):
    """The tracing of one step: its trace, the number t of the step, what hyper-parameters are, and the path taken."""

    def __init__(self, trace: Trace, step: Symbol, numbers: "dict[str, float]", rank: int) -> None:
        super().__init__()
        self.trace, self.step, self.numbers, self.rank = trace, step, numbers, rank
        self.given: dict[str, Symbol] = {}  # the parameter and its gradient
        self.guards: dict[str, Guard] = {}
        self.asks_rank: bool = False
        self.counts: dict[str, int] = {step.name: 0}  # {a whole number t + n: n}
        self.raised: dict[str, str] = {}  # {an error that a number of the tensor decides on: the line that raises it}

    def count(self, distance: int) -> Symbol:
        """The number of the step plus a distance."""
        made = self.step if distance == 0 else self.step + distance if distance > 0 else self.step - -distance
        self.counts[made.name] = distance
        return made

    def known(self, symbol: Symbol) -> Any:
        """What follows from hyper-parameters alone, as they are now; the rule is then one for this value."""
        lines = lines_of(symbol, self.numbers)
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
        return self.side_of(symbol)

    def dropped(self, error: BaseException) -> None:
        """Notes the error of a path that is none, if data decides on it and not the number of the step alone."""
        if any(condition.level >= TENSOR for condition, _ in self.taken):
            place = location_in(error)
            first, *_ = [*str(error).splitlines(), ""]
            self.raised[f"{type(error).__name__}: {first}".rstrip(": ")] = f"{place.file}:{place.line}" if place else "its step"

    def explore(self, body: "Callable[[], dict[str, Symbol]]") -> "dict[str, Symbol]":
        """What `body` makes, over all paths that its branches on numbers of the step and the tensor have. A path that the
        code itself refuses, such as a step that is negative, is none."""
        return self.joined(body, lambda condition, yes, no: either(lambda: condition, yes, no), refused=Exception)


running: "ContextVar[Tracing]" = ContextVar("running")


def either(condition: "Callable[[], Symbol]", yes: "dict[str, Symbol]", no: "dict[str, Symbol]") -> "dict[str, Symbol]":
    """The values of one side or the other; those that are the same on both need no choice."""
    trace, made = running.get().trace, {}
    for key in yes:
        a, b = narrow(yes[key], trace), narrow(no[key], trace)
        made[key] = a if a.name == b.name else choose(condition(), a, b)
    return made
