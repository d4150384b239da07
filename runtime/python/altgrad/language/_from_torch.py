"""A rule from an optimizer of torch's kind, whose step is run on proxies."""

import contextlib
import copy
import inspect
import io
import math
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple, NoReturn

import torch

from .._warn import warn
from ._arithmetic import wide
from ._errors import RuleError, SourceLocation, fail_at, fail_in
from ._from_torch_math import patched
from ._from_torch_paths import Tracing, either, running
from ._known import Guard
from ._from_torch_state import Held, NumbersOfGroups, ParamState, States, constant_of, filled, role_of, same
from ._from_torch_proxies import FULL, NUMBER, Mode, Number, Proxy, proxy, raw
from ._rule import Rule
from ._signature import Grad, Param, State, Step, Unit, parts_named
from ._trace import ELEMENT, HYPER, STEP, UNIT, current

_RESERVED = {"param", "grad", "master", "copy", "states", "rungs", "step", "p", "g", "t", "params"}
_CONTAINERS = dict, list, set
_NO_NUMBER = {"params", "foreach", "fused", "capturable", "differentiable"}


class Traced(NamedTuple):
    """The rule of a class with a group's entries, and on which of them it depends."""

    rule: Rule
    keys: "dict[str, str]"  # {state of the rule: key in `state`}
    units: "dict[str, type]"  # what the states are that are numbers, of the tensor and of rows, or of columns
    places: "dict[str, tuple[str, int | None]]"  # {hyper-parameter: (key of the group, place)}
    guards: "tuple[Guard, ...]"
    count: "tuple[str, str, int] | None"  # where steps are counted, in "state", "group" or "states", under which key, and what that is at step 0
    rank: "int | None"  # how many dimensions parameters have, where the rule depends on it
    noted: "dict[str, str]"  # {hyper-parameter: the entry of the group that it was when the group was made}

    def holds(self, group: "Mapping[str, Any]") -> bool:
        """Whether this is the rule for the numbers that a group has now."""
        try:
            return all([guard.holds(self._numbers(guard, group)) for guard in self.guards])
        except (TypeError, IndexError):  # a number has become something else
            return False

    def _numbers(self, guard, group):
        found = {}
        for name in set(re.findall(r"%[A-Za-z_]\w*", " ".join([guard.name, *guard.lines.values()]))):
            key, place = self.places[name[1:]]
            found[name] = float(group[key] if place is None else group[key][place])
        return found


def parts_of(value: Any) -> "tuple[Any, ...]":
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def is_number(value: Any) -> bool:
    """Whether an entry of a group is a number or a tuple of them."""
    if type(value) is float:
        return math.isfinite(value)

    def is_one(part):
        known = isinstance(part, Real) and not isinstance(part, bool) and math.isfinite(part)
        return known or isinstance(part, torch.Tensor) and part.numel() == 1
    return bool(parts_of(value)) and all(map(is_one, parts_of(value)))


def _is_whole(value):
    """Whether it may be how many, which stands in the rule: a rule with other ones is another rule."""
    return all(isinstance(part, int) for part in parts_of(value))


class Source:
    """An optimizer of torch's kind: its class, its constructor's arguments, the entries of a group, parameters of a rank."""

    def __init__(self, kind: type, given: "Mapping[str, Any]", entries: "Mapping[str, Any]", rank: int, baked: "set[str]",
                 ending: str = "") -> None:
        self.kind, self.rank, self.name = kind, rank, re.sub(r"\W", "_", kind.__name__).lower() + ending
        example = torch.nn.Parameter(torch.zeros((2, 3, 4, 5, 6)[:rank]))
        with contextlib.redirect_stdout(io.StringIO()):
            self.real = kind([example], **given)
        self.entries = {**self.real.param_groups[0], **entries, **dict.fromkeys(_NO_NUMBER & {*self.real.param_groups[0]}, False)}
        self.begun = dict(self.real.state.get(example, {}))
        numbers = {key: value for key, value in self.entries.items() if key not in baked | _NO_NUMBER and is_number(value)}
        self.hypers = {key: value for key, value in numbers.items() if not _is_whole(value)}
        self.noted: dict[str, str] = {}  # {list of the optimizer's own: the entry that it noted of each group}
        for name, value in vars(self.real).items():
            is_one = type(value) is list and len(value) == 1 and type(value[0]) is float and name not in self.real.param_groups[0]
            key = next((key for key, own in self.hypers.items() if type(own) is float and own == value[0]), "") if is_one else ""
            if key:
                self.noted[name], self.hypers[name] = key, self.entries.setdefault(name, value[0])
        self._fixed: list[str] = [key for key, value in numbers.items() if _is_whole(value)]
        self.states: dict[str, tuple[str, type, str | None]] = {}  # {key: (name, role, the form of a tensor)}
        self.counts: dict[str, tuple[int, bool]] = {}  # {key of the state: (what it counts from, whether it is a tensor)}
        self.group_counts: dict[str, int] = {}  # {key of the group: what it is after the first step}
        self.own_counts: dict[str, int] = {}  # {key of what belongs to no parameter: what it is after the first step}
        self.group_states: dict[str, str] = {}  # {key of the group: the state that stands for it}
        self.constants: dict[str, Any] = {}  # what lies in the state and never changes
        self._numbers: dict[str, Any] = {}

    def trace(self) -> Traced:
        """Runs the step to see what it keeps, then as a rule of all numbers, then as one of those that it reads."""
        self._numbers = self._find_numbers()
        self._rule({}, [*self.hypers], True, self._discover).text
        while True:
            self._numbers = self._find_numbers()
            try:
                return self._traced()
            except _NoCount as found:
                self._keep(found.key, found.of_group)

    def _keep(self, key, of_group):
        """Makes a number that is kept of what looked like a count of steps."""
        if of_group:
            del self.group_counts[key]
            self.group_states[key] = key + "_" * (key in _RESERVED)
        else:
            self.states[key] = key + "_" * (key in _RESERVED), Unit, NUMBER if self.counts.pop(key)[1] else None

    def _traced(self):
        roles = {name: role for name, role, _ in self.states.values()} | dict.fromkeys(self.group_states.values(), Unit)
        text = self._rule(roles, [*self._numbers], True, self._update).text
        read = set(re.findall(r"%(\w+)", text[text.index(") {"):]))
        used = [key for key, (_, parts) in self._numbers.items() if read & {part for part, _ in parts}]
        rule = self._rule(roles, used, "t" in read, self._update)
        known: dict[str, int] = {}
        for other, words in ("group", "parameters"), ("groups", "groups"):
            text = self._rule(roles, used, "t" in read, lambda run, other=other: self._update(run, other)).text
            if _meaning(rule.text, known) != _meaning(text, known):
                self._fail_by_cause(rule, roles, used, "t" in read, words)
        for error, line in rule._function.run.raised.items():
            warn(f"{line} of {self.kind.__name__} raises {error}, where a number of the gradient, the parameter or a state decides on it: "
                 "the compiled step does not look, and goes on")
        run, places = rule._function.run, {part: (key, place) for key, (_, parts) in self._numbers.items() for part, place in parts}
        guards, fixed = list(run.guards.values()), [*self._fixed, *self.group_states.keys() & self.entries.keys()]
        if self.begun:  # which follows from what no step reads
            fixed += [key for key in self._numbers if key not in used]
        for key in fixed:
            for place, value in enumerate(parts_of(self.entries[key])):
                part = f"{key}_{place}_" if len(parts_of(self.entries[key])) > 1 else f"{key}_"
                places[part] = key, place if isinstance(self.entries[key], (tuple, list)) else None
                guards.append(Guard(f"%{part}", float(value), {}))
        keys = {name: key for key, (name, _, _) in self.states.items()} | {name: name for name in self.group_states.values()}
        return Traced(rule, keys, {name: role for name, role in roles.items() if role is not State}, places, tuple(guards),
                      self._count(), self.rank if run.asks_rank else None, self.noted)

    def _fail_by_cause(self, rule, roles, used, counts, words):
        """Says why the step of a parameter is another one behind that of another parameter."""
        if _meaning(rule.text, known := {}) != _meaning(self._rule(roles, used, counts, self._update).text, known):
            self.fail("the step is another one each time that it runs, as by the time or by Python's random numbers: a rule is traced once; "
                      "read such a number from the group")
        if changed := [key for key in self.group_states if key in self.hypers]:
            self.fail(f"the step changes {changed[0]!r} of its group, which the next parameter reads: change it outside the step, as "
                      "schedulers do")
        self.fail(f"the step of a parameter depends on other {words}: a rule reads one parameter, and a sum over all is ag.total in a rule "
                  "in Python")

    def _count(self):
        for key, (start, _) in self.counts.items():
            return "state", key, start
        for key, first in self.group_counts.items():
            return "group", key, first - 1
        for key, first in self.own_counts.items():
            return "states", key, first - 1
        return None

    def fail(self, words: str) -> NoReturn:
        """Refuses what the class does as a whole, where it begins."""
        code = inspect.unwrap(self.kind.step).__code__
        fail_at(SourceLocation(code.co_filename, code.co_firstlineno), f"{self.kind.__name__}: {words}")

    def _find_numbers(self):
        """{key of the group: (name in the rule, [(name of a part, its place)])}"""
        states, found = {name for name, _, _ in self.states.values()}, {}
        for key, value in self.hypers.items():
            name = re.sub(r"\W", "_", key)
            name += "_" * (name in _RESERVED | states)
            if key not in self.group_counts and key not in self.group_states:
                found[key] = name, parts_named(name, value)
        return found

    def _rule(self, roles, keys, counts, body):
        """A Rule whose function runs `body` with a Tracing."""
        def step(**given):
            run = step.run = self._begin()
            run.given = {name: given[name] for name in ("p", "g")}
            mark = running.set(run)
            try:
                with patched(self.kind):
                    return body(run)
            except RuleError:
                raise
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
                if isinstance(error, OverflowError) and "math range" not in words:
                    words = "a size of the parameter behind a float of Python's, or in C code: write the size first, p.shape[0] * 0.5"
                fail_in(error, words)
                self.fail(words)
            finally:
                running.reset(mark)

        step.stands_for = inspect.unwrap(self.kind.step)
        kind, given = inspect.Parameter.KEYWORD_ONLY, {"p": Param, "g": Grad, **roles, **({"t": Step} if counts else {})}
        step.__name__ = step.__qualname__ = self.name
        step.__doc__ = f"{self.kind.__module__}.{self.kind.__qualname__}, traced."
        step.__signature__ = inspect.Signature([
            *[inspect.Parameter(name, kind, annotation=role) for name, role in given.items()],
            *[inspect.Parameter(self._numbers[key][0], kind, default=_plain(self.hypers[key])) for key in keys]])
        return Rule(step)

    def _begin(self):
        trace = current("from_torch")
        numbers = {f"%{part}": float(parts_of(self.hypers[key])[place or 0])
                   for key, (_, parts) in self._numbers.items() for part, place in parts}
        return Tracing(trace, trace.argument("t", "i64", STEP, ""), numbers, self.rank)

    def _discover(self, run):
        """Runs a first step, and notes what it leaves in the state and in the group."""
        firsts = {}

        def note(key, value):
            firsts.setdefault(key, constant_of(run, value))
            return value

        def path():
            state = self._begun(Held(note))
            param = self._param(run)
            group, self._lifted = self._group(run, [param], True)
            param = self._step(run, [(param, state)], [group], True)
            for key, value in self._made.state.items():
                if isinstance(key, str) and key not in self.own_counts:
                    if constant_of(run, value) != 1:
                        self.fail("a state that belongs to no parameter: a rule has states of parameters")
                    self.own_counts[key] = 1
            for key, value in state.items():
                if key not in self.states and key not in self.counts and key not in self.constants:
                    self._classify(run, key, value, firsts.get(key))
            for key, value in group.items():
                before = self.entries.get(key)
                if key != "params" and key not in self.group_counts and not (key in self._lifted and value is self._lifted[key]):
                    is_known = isinstance(value, Number) and value.symbol.level <= HYPER
                    after = run.known(value.symbol) if is_known else constant_of(run, value)
                    if after is not None and before in (None, 0) and after == 1:
                        self.group_counts[key] = int(after)
                    elif isinstance(value, (int, float)) and not isinstance(value, bool):
                        self.group_states[key] = key + "_" * (key in _RESERVED)
                    else:
                        self.fail(f"its group keeps {key!r} from step to step, which is no number")
            return {"p": param}
        return run.explore(path)["p"]

    def _classify(self, run, key, value, first):
        is_tensor = type(value) is Proxy
        if not isinstance(key, str) or not (is_tensor or value is None or isinstance(value, (Real, str))):
            self.fail(f"state {key!r} is a {type(value).__name__}: a rule has states of the parameter's shape, and numbers")
        if value is None or isinstance(value, (bool, str)):
            self.constants[key] = value
        elif (not is_tensor or value.form == NUMBER) and constant_of(run, value) in (1, 1 if first is None else first + 1):
            self.counts[key] = int(constant_of(run, value)) - 1, is_tensor
        else:
            name = re.sub(r"\W", "_", key)
            form = value.form if is_tensor else None
            self.states[key] = name + "_" * (name in _RESERVED), role_of(form), form

    def _update(self, run, other=""):
        """What the rule returns: the first step and the later ones, joined where they differ. `other`: a parameter that is stepped
        before, in the same "group", or in one of two "groups"."""
        of_group = {key: run.trace.argument(name, "f32", UNIT, "") for key, name in self.group_states.items()}

        def path(first):
            kept = [ParamState(self, run, prefix) for prefix in ["other_"] * bool(other) + [""]]
            params = [self._param(run, of.prefix) for of in kept]
            group, self._lifted = self._group(run, params if other != "groups" else params[1:], first)
            groups = [self._group(run, params[:1], first, "other_")[0]] * (other == "groups") + [group]
            param = self._step(run, [(param, self._begun(of.first()) if first else of.later()) for param, of in zip(params, kept)],
                               groups, first)
            self._check(run, kept[-1].held, group)
            made = {"p": param, **kept[-1].values()}
            return made | {f"{key} of the group": raw(group[key]) if key in group else symbol for key, symbol in of_group.items()}
        later = run.explore(lambda: path(False))
        first = run.explore(lambda: path(True)) if self.states or self.counts or self.group_counts or self.own_counts or of_group else later
        made = either(lambda: run.step == 1, first, later)
        if made["p"].name == "%p":
            self.fail("the step leaves the parameter as it is")
        for line in run.trace.lines:
            if re.search(r"constant 0x(7FC0|7FF8)", line):
                self.fail("C code reads a number of the rule, such as that of math.fsum: write Python's operators")
        return made["p"], {name: made[key] for key, (name, _, _) in self.states.items()} | {
            name: made[f"{key} of the group"] for key, name in self.group_states.items()}

    def _param(self, run, prefix=""):
        given = {name: run.trace.argument(prefix + name, "f32", ELEMENT, "") for name in run.given} if prefix else run.given
        param = proxy(given["p"], FULL)
        param.held_grad = proxy(given["g"], FULL)
        return param

    def _begun(self, state):
        """A state before the first step, in which the constructor may have put something."""
        for key, value in self.begun.items():
            state[key] = proxy(filled(value), FULL if value.dim() else NUMBER) if isinstance(value, torch.Tensor) else value
        return state

    def _step(self, run, own, groups, first):
        """The last parameter after a step on proxies; `own`: (parameter, its state) of each."""
        def begin(key, value):
            return proxy(run.count(int(constant_of(run, value)) - 1), NUMBER) if key in self.own_counts else value

        counts = {} if first else {key: proxy(run.count(after - 2), NUMBER) for key, after in self.own_counts.items()}
        self._made = optimizer = object.__new__(self.kind)
        self._kept = {key: copy.copy(value) if isinstance(value, _CONTAINERS) else value for key, value in vars(self.real).items()}
        self._kept |= {key: NumbersOfGroups(value) for key, value in self._kept.items() if type(value) is list and is_number(value)}
        for key in self.noted:
            self._kept[key].number = self._lifted[key]
        optimizer.__dict__.update(self._kept, param_groups=groups, state=States(own, begin, counts), defaults={**self._lifted})
        if optimizer.param_groups[-1] is not groups[-1] or not isinstance(optimizer.state, States):
            self.fail("it hands its groups to another optimizer: give from_torch that one's class")
        step = self.kind.step
        with Mode(), contextlib.redirect_stdout(io.StringIO()):
            (step.__wrapped__ if hasattr(step, "hooked") else step)(optimizer)
        return own[-1][0].symbol

    def _group(self, run, params, first, prefix=""):
        """(a group before the step, its entries in which hyper-parameters are numbers of the rule)"""
        lifted = dict(self.entries)
        for key, (_, parts) in self._numbers.items():
            run.numbers |= {f"%{prefix}{part}": run.numbers[f"%{part}"] for part, _ in parts}
            values = [Number(run.trace.argument(prefix + part, "f64", HYPER, "")) for part, _ in parts]
            lifted[key] = type(self.entries[key])(values) if isinstance(self.entries[key], (tuple, list)) else values[0]
        kept = {key: run.trace.argument(prefix + name, "f32", UNIT, "") for key, name in self.group_states.items()}
        # Whatever begins as 0 is the state in the first step, too.
        lifted |= {key: Number(wide(symbol, run.trace)) for key, symbol in kept.items() if not first or self.entries.get(key) == 0}
        counts = {key: Number(run.count(after - 2)) for key, after in self.group_counts.items() if key in self.entries or not first}
        group = Held(lambda key, value: Number(run.count(int(value) - 1)) if key in self.group_counts else value)
        group.put({**lifted, **counts, "params": params})
        return group, lifted

    def _check(self, run, state, group):
        """Refuses what is kept from step to step and is no state of the rule."""
        for key, (start, _) in self.counts.items():
            if key in state and getattr(raw(state[key]), "name", "") != run.count(start).name:
                raise _NoCount(key, False)
        for key, value in group.items():
            if key in self.group_counts and getattr(raw(value), "name", "") != run.count(self.group_counts[key] - 1).name:
                raise _NoCount(key, True)
            if key not in {*self.group_counts, *self.group_states, "params"} and value is not self._lifted.get(key, self):
                self.fail(f"its group keeps {key!r} from step to step, which comes after the first one")
        for key, first in self.own_counts.items():
            if getattr(raw(self._made.state.get(key)), "name", "") != run.count(first - 1).name:
                self.fail("a state that belongs to no parameter: a rule has states of parameters")
        unknown = [key for key in state if key not in self.states and key not in self.counts and key not in self.constants]
        if unknown or any(state.get(key, value) != value for key, value in self.constants.items()):
            self.fail(f"state {unknown[0]!r} comes after the first step" if unknown else "its state keeps what is no number")
        self._check_own()

    def _check_own(self):
        """Refuses what the optimizer keeps as its own."""
        real = vars(self.real)
        changed = [key for key, value in self._kept.items() if isinstance(value, _CONTAINERS) and not same(value, real[key])
                   and key not in ("param_groups", "state", "defaults")]
        changed += [key for key, value in vars(self._made).items() if key != "defaults" and (
            isinstance(value, (Proxy, Number)) or isinstance(value, (int, float)) and value != real.get(key, value))]
        if changed:
            self.fail(f"it keeps something of its own from step to step, {changed[0]!r}: a rule has states of parameters")


def _meaning(text, known):
    """What a rule yields, by numbers for its operations that are the same wherever they stand."""
    numbers, meant = {}, ""
    for line in text[text.index(") {") + 3:].splitlines():
        name, _, words = line.strip().rpartition(" = ")
        words = re.sub(r"%\w+", lambda operand: numbers.get(operand[0], operand[0]), words)
        if name:
            numbers[name] = f"#{known.setdefault(words, len(known))}"
        meant = words if words.startswith("altgrad.yield") else meant
    return meant


class _NoCount(RuleError):
    """What is 1 after the first step and does not count steps."""

    def __init__(self, key, of_group):
        super().__init__(f"{key!r} is no count", ("", 0, 0, ""))
        self.key, self.of_group = key, of_group


def _plain(value):
    return tuple(map(float, value)) if isinstance(value, (tuple, list)) else float(value)
