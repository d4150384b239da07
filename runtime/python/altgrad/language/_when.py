"""ag.when: a branch on the number of the step, which the host takes for each parameter by its own count."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ._errors import fail
from ._known import DOES, lines_of, value_of
from ._trace import CONSTANT, LEVELS, STEP, Symbol, current


class When(NamedTuple):
    """A condition of the number of the step and of hyper-parameters, which are `leaves` of its lines."""

    name: str
    step: str
    leaves: "tuple[str, ...]"
    lines: "tuple[tuple[str, str], ...]"

    def holds(self, step: int, number_of: Callable[[str], float]) -> bool:
        """Whether a step is such a one; `number_of` says what a hyper-parameter is. Raises ValueError for 0 / 0."""
        numbers = {leaf: step if leaf == self.step else number_of(leaf[1:]) for leaf in self.leaves}
        lines = dict(self.lines)
        values = {name: value_of(name, lines, numbers) for name in lines}
        if any([value != value for value in values.values()]):
            given = ", ".join(f"{leaf[1:]} = {numbers[leaf]:g}" for leaf in self.leaves)
            raise ValueError(f"a condition of ag.when divides by 0, where {given}: give the group another number")
        return values[self.name]


def when(condition: Any) -> bool:
    """In an `if`: whether this is one of the steps that a comparison says, as in ag.when(t % every == 0).

    Such a step is a program of its own, so what stands under the `if` costs nothing in the others. Steps are counted for
    each parameter by itself, and a skipped one is none.

    Args:
        condition: A comparison of the ag.Step, of numbers and of hyper-parameters.
    """
    trace = current("ag.when")
    if not isinstance(condition, Symbol) or condition.kind != "i1":
        fail("ag.when() takes a comparison of the ag.Step, such as ag.when(t % 10 == 0); an ag.Option decides an `if` by itself")
    if condition.level > STEP:
        fail(f"ag.when() on {LEVELS[condition.level]}: the steps are chosen before it is computed, by the ag.Step and hyper-parameters; "
             "for other numbers write ag.where(condition, a, b)")
    if trace.entry_of:
        fail(f"ag.when() in an entry of @{trace.entry_of}, which runs when it is called: call it in the steps that are meant")
    lines = lines_of(condition)
    words = {line.partition(" ")[0] for line in lines.values()} - DOES.keys() - {"constant", "cmpf", "cmpi"}
    leaves = {leaf: trace.given[leaf] for leaf in re.findall(r"%[A-Za-z_]\w*", " ".join(lines.values()))}
    others = [leaf[1:] for leaf, one in leaves.items() if one.role == "global"]
    if words or others:
        fail(f"ag.when() on {min(words).rpartition('.')[2] if words else others[0]}: it takes the ag.Step, hyper-parameters and numbers "
             "with + - * / // %, comparisons and & | ~; for others write ag.where(condition, a, b)")
    step = next((leaf for leaf, one in leaves.items() if one.role == "step"), None)
    if step is None:
        fail("ag.when() on no number of the step, which is the same in all of them: compare the ag.Step, as in ag.when(t % 10 == 0); "
             "a choice for good is an ag.Option")
    if condition.name not in trace.options:
        name = f"when{len(trace.options) + 1}"
        while "%" + name in trace.given:
            name += "_"
        trace.options[condition.name] = (trace.make(trace, "%" + name, "i1", CONSTANT),
                                         When(condition.name, step, tuple(leaves), tuple(lines.items())))
    return trace.paths.side_of(trace.options[condition.name][0])
