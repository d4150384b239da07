"""Runs the function of a rule once, on names, and writes the text."""

import inspect
import re
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

from ._arithmetic import check, level_of, narrow, wide
from ._errors import RuleError, SourceLocation, code_of, fail_at, not_caught
from ._functions import where
from ._matrices import identity
from ._signature import Column, Global, Grad, Param, Row, Scalar, Signature, Square, State, Step, Unit
from ._trace import COLUMN, ELEMENT, GLOBAL, HYPER, LEVELS, STEP, TENSOR, UNIT, Symbol, Trace, now, spelled
from ._values import Value
from ._when import When


def write(signature: Signature, options: dict[str, bool], entry_of: str | None = None,
          entries: Mapping[str, Any] = {}) -> "tuple[str, list[tuple], dict[str, When]]":
    """(the text of the rule with these options, the user's code for each of its lines, its options of ag.when by name).

    Of an entry, `entry_of` has the name of its rule; of a rule, `entries` has those that it has by their names.
    """
    mark = now.set(trace := Trace(Value, entry_of))
    try:
        given, rows = _arguments(signature, options, trace)
        function = signature.function
        own = code_of(function), -1, code_of(function).co_firstlineno  # the place of a line that no line of the body stands for
        results = Results(signature, options, given, trace, own, entries=entries)
        with not_caught(), _ended(signature):
            made = trace.paths.joined(lambda: results.made(function(**given)), results.either)
        param, *states = results.checked(made)
        rows = _share(rows, signature, options, dict(zip(signature.states(options), states)), trace)
        body, places, (param, *states) = _used(trace, [param, *states])
        whens = {symbol.name[1:]: when for symbol, when in trace.options.values() if re.search(rf"{symbol.name}\b", " ".join(body))}
        rows += [f"option %{name}: i1 = false" for name in whens]
        results = dict(zip(signature.states(options), states))
        if entry_of:
            rows, results = _without_unused(signature, rows, results, body + [param])
        states = [value + ": f64" * isinstance(signature.order[name], (Scalar, Global)) for name, value in results.items()]
    finally:
        now.reset(mark)
    head = [f"// {line}".rstrip() for line in (inspect.getdoc(function) or "").splitlines()]
    head += [f"altgrad.rule @{entry_of + '_' if entry_of else ''}{function.__name__}(",
             *[f"    {row}," for row in rows[:-1]], f"    {rows[-1]}) {{"]
    named = ", ".join([f'"{name}"' for name in entries])
    end = f'}} {{altgrad.entry_of = "{entry_of}"}}' if entry_of else f"}} {{altgrad.entries = [{named}]}}" if entries else "}"
    lines = [*head, *body, f"  altgrad.yield param({param}) state({', '.join(states)})", end, ""]
    return "\n".join(lines), [own] * len(head) + places + [own] * (len(lines) - len(head) - len(places)), whens


@contextmanager
def _ended(signature):
    """Refuses a function that calls itself without an end."""
    try:
        yield
    except RecursionError:
        signature.fail(None, "the function calls itself without an end: what a rule computes again and again is a `for` over range()")


def _without_unused(signature, rows, results, lines):
    """The arguments and the new states of an entry, without what it neither reads nor changes."""
    changed = {name: value for name, value in results.items() if value != f"%{name}"}
    used = set(re.findall(r"%\w+", " ".join([*lines, *changed.values()]))) | {f"%{name}" for name in changed}
    used |= {f"%{name}" for name, role in signature.order.items() if isinstance(role, (Param, Grad))}
    return ([row for row in rows if re.search(r"%\w+", row)[0] in used],
            {name: value for name, value in results.items() if f"%{name}" in used})


def _used(trace, results):
    """(the lines on which the results depend, the place of each, the results)."""
    needed = set(results)
    for line in reversed(trace.lines):
        name, _, text = line.partition(" = ")
        if name in needed:
            needed.update(re.findall(r"%\w+", text))
    kept = [index for index, line in enumerate(trace.lines) if line.partition(" ")[0] in needed]
    new = {f"%{index}": f"%{place}" for place, index in enumerate(kept)}
    lines = [re.sub(r"%\d+", lambda name: new[name[0]], f"  {trace.lines[index]}") for index in kept]
    return lines, [trace.places[index] for index in kept], [new.get(name, name) for name in results]


def _arguments(signature, options, trace):
    """(what the function is called with, the arguments of the text)."""
    given, rows, parts = dict(options), [], {}
    for name, role in signature.order.items():
        if isinstance(role, State) and name not in signature.states(options):
            given[name] = None
            continue
        word, rest = ("state" if isinstance(role, State) else type(role).__name__.lower()), ""
        kind, level = ("i64", STEP) if isinstance(role, Step) else ("f32", ELEMENT)
        if type(role) in _NUMBERS:
            kind, level = role.kind, _NUMBERS[type(role)]
            rest = f" per {role.word}" + (f" = {spelled(role.first)}" if role.first else "")
        elif isinstance(role, Column):
            rest, level = " per column", COLUMN
        elif isinstance(role, Square):
            rest = f" per {role.side} x {role.side}"
        given[name] = trace.argument(name, kind, level, word, getattr(role, "side", ""))
        rows.append(f"{word} %{name}: {kind}{rest}")
    for part, (name, place) in signature.pairs.items():
        value = signature.hypers[name] if place is None else signature.hypers[name][place]
        rows.append(f"hyper %{part}: f64" + (f" = {spelled(value)}" if value is not None else ""))
        parts.setdefault(name, []).append(trace.argument(part, "f64", HYPER, ""))
    given |= {name: tuple(values) if isinstance(signature.hypers[name], tuple) else values[0] for name, values in parts.items()}
    for name, role in signature.order.items():
        if type(role) in (State, Square) and role.first != 0.0 and given[name] is not None:
            step = next(other for other, one in signature.order.items() if isinstance(one, Step))
            first = role.first * identity(given[name]) if isinstance(role, Square) else given[role.first]
            given[name] = where(given[step] == 1, first, given[name])
    return given, rows


def _shape_word(side):
    return f"a square of {side} x {side}" if side else "of the tensor's shape"


_NUMBERS = {Unit: UNIT, Row: UNIT, Scalar: TENSOR, Global: GLOBAL}


def _share(rows, signature, options, states, trace):
    """The arguments of the text, with the hyper-parameters `per step` from which a Global is computed."""
    uses = {line.split(" = ", 1)[0]: line for line in trace.lines}
    waiting = [value for name, value in states.items() if isinstance(signature.order[name], Global)]
    reached = set()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        if " over step" not in (line := uses.get(name, "")):
            waiting += re.findall(r"%\w+", line.partition(" = ")[2])
    return [re.sub(r"^(hyper (%\w+): f64)", lambda row: row[1] + " per step" * (row[2] in reached), row) for row in rows]


class Results:
    """What the function returns: the new parameter, and the new states by name or in order. What `entries` change may stay as
    it is, and what an entry only reads stays so. `own`: the place of the lines that these take."""

    def __init__(self, signature: Signature, options: "dict[str, bool]", given: "dict[str, Any]", trace: Trace, own: Any = None,
                 first: str = "", entries: "Mapping[str, Any]" = {}) -> None:
        self.signature, self.given, self.trace, self.every, self.own = signature, given, trace, signature.states(options), own
        self.states: list[str] = [name for name in self.every if name in getattr(signature.function, "writes", self.every)]
        self.kept: set[str] = {state for one in entries.values() for state in one.writes}
        self.param: str = first or next(name for name, role in signature.order.items() if isinstance(role, Param))
        self.wanted = f"write return {self.param}" + (f", dict({', '.join(f'{state}=…' for state in self.states)})" if self.states else "")

    def made(self, out: Any) -> "dict[str, Symbol]":
        """The new parameter and the new states by name, as the text has them."""
        first, new = self.values(out)
        self.trace.place = self.own
        made = {name: self.symbol_of(name, self.elements_of(value)) for name, value in
                [(self.param, first)] + [(name, new.get(name, self.given[name])) for name in self.every]}
        self.trace.place = None
        return made

    def either(self, option: Symbol, yes: "dict[str, Symbol]", no: "dict[str, Symbol]") -> "dict[str, Symbol]":
        """What two sides of an ag.when have made, as one."""
        self.trace.place = self.own
        for name in [name for name in yes if yes[name].name != no[name].name and isinstance(self.signature.order[name], Global)]:
            self.fail(f"the new {name} is one for all tensors, and ag.when() chooses for each: write ag.where(condition, a, b)", name)
        made = {name: a if a.name == (b := no[name]).name else self.trace.emit(
            "select {}, {}, {}", [option, a, b], a.kind, a.kind, level_of(a, b)) for name, a in yes.items()}
        self.trace.place = None
        return made

    def checked(self, made: "dict[str, Symbol]") -> list[str]:
        """The names of these in the text; refuses a state that is the same on all paths."""
        for name in self.states if self.trace.options else ():
            self.check_new(name, made[name].name != f"%{name}")
        return [made[name].name for name in (self.param, *self.every)]

    def values(self, out: Any) -> "tuple[Any, dict[str, Any]]":
        """The new parameter, and the new states by name."""
        if out is None:
            self.fail(f"the function returns nothing: {self.wanted}")
        first, *rest = out if isinstance(out, tuple) and out else (out,)
        if isinstance(first, (dict, list, tuple)):
            self.fail(f"the new parameter comes first: {self.wanted}")
        by_name = len(rest) == 1 and isinstance(rest[0], Mapping)
        if not by_name and len(rest) != len(self.states):
            self.fail(f"the function returns {1 + len(rest)}, and {1 + len(self.states)} values are wanted: {self.wanted}")
        new = dict(rest[0]) if by_name else dict(zip(self.states, rest))
        self.check_names(new)
        return first, new

    def check_names(self, new):
        order, states = self.signature.order, ", ".join(self.states) or "none"
        for name, value in new.items():
            if name in self.every and name not in self.states:
                self.fail(f"{name!r} is returned, and an ag.Input is only read: write {name}: ag.State, or leave it out")
            if name not in self.states and not (value is None and isinstance(order.get(name), State)):
                self.fail(f"{name!r} is returned and is no state " + ("without its option" if name in order else f"of the rule; there are {states}"))
        for name in self.states:
            if name in self.kept:
                new.setdefault(name, self.given[name])
                continue
            if name not in new:
                self.fail(f"state {name} has no new value: {self.wanted}")
            self.check_new(name, new[name] is not self.given[name] or bool(self.trace.paths.taken))

    def check_new(self, name, is_new):
        role = self.signature.order[name]
        if is_new or name in self.kept or type(role) is State and role.first != 0.0:
            return
        used = any(re.search(rf"%{name}\b", line) for line in self.trace.lines)
        self.fail(f"state {name} is {'read and returned as it came' if used else 'never used'}: give it a new value, or take it "
                  f"out, or write {name}: ag.State(when=…) if an option needs it", name)

    def elements_of(self, value):
        """The elements of a product of matrices; anything else as it is."""
        is_product = isinstance(value, Symbol) and value.trace is self.trace and (
            id(value) in self.trace.grams or value.kind.startswith("tensors"))
        return narrow(value, self.trace) if is_product else value

    def symbol_of(self, name, value):
        try:
            check(value)
        except RuleError as error:
            self.fail(f"the new {name} is none: {error.msg}")
        role, level = self.signature.order[name], level_of(value)
        if isinstance(value, Symbol) and (value.kind == "i1" or value.trace is not self.trace):
            self.fail(f"the new {name} is a comparison or of another trace: write ag.where(condition, a, b)")
        if isinstance(role, Param) and level < COLUMN:
            self.fail(f"the new {name} is one number for the whole tensor: return p - …")
        if isinstance(value, Symbol) and level == ELEMENT and (side := getattr(role, "side", "")) != self.trace.sides.get(value.name, ""):
            self.fail(f"the new {name} is {_shape_word(self.trace.sides.get(value.name, ''))}, and {name} is {_shape_word(side)}: x @ y "
                      "multiplies matrices", name)
        if isinstance(role, Unit) and level >= COLUMN:
            self.fail(f'the new {name} differs within a {role.word}: write .mean("{role.word}"), .sum("{role.word}") or .max("{role.word}")', name)
        if isinstance(role, Column) and level != COLUMN:
            words = "is one number for all columns" if level < COLUMN else "differs within a column"
            self.fail(f'the new {name} {words}: write .mean("column"), .sum("column") or .max("column")', name)
        if isinstance(role, Scalar) and level > TENSOR:
            self.fail(f'the new {name} differs within a tensor: write .mean(), .sum() or .max()', name)
        if isinstance(role, Global) and level > HYPER:
            self.fail(f"the new {name} is {LEVELS[level]} and differs between tensors: write ag.total(…); steps are counted by another "
                      "ag.Global", name)
        if isinstance(role, (Scalar, Global)):
            return wide(value, self.trace)
        return narrow(value, self.trace)

    def fail(self, words, argument=None):
        """Refuses what the function returns, at its last line, or at the argument that is meant."""
        if argument:
            self.signature.fail(argument, words)
        code = code_of(self.signature.function)
        fail_at(SourceLocation(code.co_filename, max(line for _, _, line in code.co_lines() if line)), words)
