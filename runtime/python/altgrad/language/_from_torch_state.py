"""What an optimizer of torch's kind keeps, while its step runs on proxies: states, groups, counts of steps."""

from collections.abc import Mapping
from typing import Any

import torch

from . import _trace
from ._arithmetic import wide
from ._errors import fail
from ._from_torch_paths import Tracing
from ._from_torch_proxies import ELEMENTS, NUMBER, OF_COLUMNS, Number, Proxy, raw, proxy
from ._signature import Column, State, Unit
from ._trace import CONSTANT, Symbol


LEVELS = {State: _trace.ELEMENT, Unit: _trace.UNIT, Column: _trace.COLUMN}


def role_of(form: "str | None") -> type:
    """What a state of this form is; one number for a tensor is one for each row."""
    return State if form in ELEMENTS else Column if form in OF_COLUMNS else Unit


_NO_PARAMETER = "a state that belongs to no parameter: a rule has states of parameters"


class Held(dict):
    """The state of a parameter, or a group: `begin(key, value)` says what a new entry is."""

    def __init__(self, begin: Any, given: "Mapping[str, Any]" = {}) -> None:
        super().__init__(given)
        self.begin = begin

    def put(self, values: "Mapping[str, Any]") -> None:
        """What lies in it before the step."""
        for key, value in values.items():
            super().__setitem__(key, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, self.begin(key, value) if key not in self else value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **more: Any) -> None:
        for key, value in dict(*others, **more).items():
            self[key] = value


class ParamState:
    """The states of one parameter as the rule has them."""

    def __init__(self, source, run, prefix):
        self.source, self.run, self.prefix = source, run, prefix
        self.given = {key: run.trace.argument(prefix + name, "f32", LEVELS[role], "") for key, (name, role, _) in source.states.items()}

    def first(self) -> Held:
        self.held = Held(self._put)
        return self.held

    def _put(self, key, value):
        """In the first step a state that begins as 0 is what the rule is given, which makes that step one with the later ones."""
        constant = constant_of(self.run, value)
        if key in self.source.counts:
            return _put(value, self.run.count(int(constant) - 1))
        return _put(value, self.given[key]) if key in self.given and constant == 0 else value

    def later(self) -> Held:
        kept = {key: _as(NUMBER if is_tensor else None, self.run.count(start - 1)) for key, (start, is_tensor) in self.source.counts.items()}
        self.held = Held(lambda key, value: value, {**self.source.constants, **kept})
        self.held.put({key: _as(form, self.given[key]) for key, (_, _, form) in self.source.states.items()})
        return self.held

    def values(self):
        return {key: raw(self.held[key]) if key in self.held else symbol for key, symbol in self.given.items()}


class States(dict):
    """The states of an optimizer by its parameters, and by words the counts that belong to none: `begin(key, value)` says
    what a new one is."""

    def __init__(self, own: Any, begin: Any, counts: "Mapping[str, Any]") -> None:
        super().__init__({**{param: state for param, state in own if state}, **counts})
        self._own, self._begin = own, begin

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            value = value if key in self else self._begin(key, value)
        elif not any(key is param for param, _ in self._own):
            fail(_NO_PARAMETER)
        super().__setitem__(key, value)

    def __missing__(self, key):
        for param, state in self._own:
            if key is param:
                self[key] = state
                return state
        fail(_NO_PARAMETER)

    def setdefault(self, key, default=None):
        return self[key]


class NumbersOfGroups(list):
    """What an optimizer noted of each of its groups: they are other ones where the rule is used. `number`: what it is there,
    if it was an entry of the group."""

    number: Any = None

    def _refuse(self, *_):
        fail("a number that the optimizer noted of its groups when it was made: a rule has those of the group")

    def __getitem__(self, place: Any) -> Any:
        return self._refuse() if self.number is None else self.number

    __iter__ = __contains__ = index = count = _refuse


def same(a: Any, b: Any) -> bool:
    """Whether two lists, dicts or sets hold the same."""
    return list.__eq__(a, b) is True if isinstance(a, list) else a == b


def constant_of(run: Tracing, value: Any) -> Any:
    """The number that a value is in every step; None for other values."""
    value = raw(value) if isinstance(value, (Proxy, Number)) else value
    if isinstance(value, Symbol):
        return run.known(value) if value.level == CONSTANT else None
    return value if isinstance(value, (int, float)) else None


def _put(value, symbol):
    """The same thing with another value."""
    if type(value) is not Proxy:
        return _as(None, symbol)
    value.cell.symbol = symbol
    return value


def _as(form, symbol):
    """A tensor of this form, or for None a number of Python's."""
    if form:
        return proxy(symbol, form)
    return Number(symbol if symbol.kind == "i64" else wide(symbol, symbol.trace))


def filled(value: torch.Tensor) -> Any:
    """The number that all elements of a tensor are."""
    first = value.detach().reshape(-1)[0].item()
    if not bool((value == first).all()):
        fail("the constructor makes a state of different numbers: a rule's states begin as one number")
    return first
