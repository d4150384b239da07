"""What the arguments of a rule's function are: annotations give roles, and numbers are hyper-parameters."""

import inspect
import math
import re
from collections.abc import Callable
from numbers import Real
from typing import Any, NoReturn

from ._errors import fail_at, place_of_argument


class Role:
    """What an argument of a rule is."""

    when: str | None = None


class Param(Role):
    """The element of the parameter."""


class Grad(Role):
    """The element of its gradient."""


class New(Role):
    """In a transform: the element of the parameter that the rule returns."""


class Step(Role):
    """The number of this step, from 1."""


class Option(Role):
    """A choice, True or False, that is made when the class of optimizers is made; `if` decides on it."""


class State(Role):
    """The element of a tensor that is kept from step to step and begins as 0.

    Args:
        when: The option that the state needs. Without that option it is not stored, and the argument is None.
        first: The name of the ag.Param, if it begins as the parameter is in the first step, which takes an ag.Step.
    """

    word = "state"

    def __init__(self, when: str | None = None, *, first: Any = None, **later: Any) -> None:
        self.when: str | None = when
        self.first: Any = first or 0.0
        self._later = later


class _Number(State):
    """A number that is kept from step to step.

    Args:
        when: The option that the state needs. Without that option it is not stored, and the argument is None.
        first: What it begins as.
    """

    kind = "f64"

    def __init__(self, when: str | None = None, *, first: float = 0.0, **later: Any) -> None:
        super().__init__(when, **later)
        self.first: float = first


class Unit(_Number):
    """A number that is kept for each unit of the tensor, an index of dimension 0: a row of a matrix."""

    word, kind = "unit", "f32"


class Row(Unit):
    """A number that is kept for each row of a matrix. A tensor counts as one matrix, with its last dimension as columns."""

    word = "row"


class Column(State):
    """A number that is kept for each column of a matrix and begins as 0. What is computed with it is float32.

    Args:
        when: The option that the state needs. Without that option it is not stored, and the argument is None.
    """

    word = "column"


class Scalar(_Number):
    """A number that is kept for each tensor, in float64."""

    word = "tensor"


class Global(_Number):
    """A number that is kept once for all tensors, in float64. A hyper-parameter that its new value is computed from has
    one value for all groups, and a new value of all tensors comes from ag.total."""

    word = "step"


class Square(State):
    """A square matrix that is kept beside a matrix, in float32.

    Args:
        side: "rows" for one of rows x rows, "columns" for one of columns x columns.
        when: The option that the state needs. Without that option it is not stored, and the argument is None.
        first: What it begins as in the first step: this number times the identity, which takes an ag.Step unless it is 0.
    """

    word = "square"

    def __init__(self, side: str | None = None, when: str | None = None, *, first: float = 0.0, **later: Any) -> None:
        super().__init__(when, **later)
        self.side: str | None = side
        self.first: float = first


class Input(Role):
    """The element of a further tensor of the parameter's shape, which step(inputs=) gives and which is only read."""


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WANTED = "annotate it as ag.Param, ag.Grad, ag.State, ag.Row, ag.Column, ag.Unit, ag.Scalar, ag.Global, ag.Square, ag.Input, ag.Step or ag.Option, or give it a number: lr=1e-3 is a hyper-parameter"


def parts_named(name: str, value: Any) -> "list[tuple[str, int | None]]":
    """(name in the text, place in its tuple or None) of each number of a hyper-parameter."""
    if not isinstance(value, (tuple, list)):
        return [(name, None)]
    return [(name.removesuffix("s") + str(place + 1), place) for place in range(len(value))]


class Signature:
    """The arguments of a function: `order` has all roles by name, and `hypers` the numbers, None where there is none."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.order, self.hypers, self.options = function, {}, {}, {}
        try:
            parameters = inspect.signature(function, eval_str=True).parameters
        except NameError as error:
            self.fail(None, f"an annotation names {error.name!r}, which there is not: write import altgrad.language as ag, and ag.Param")
        if not _NAME.fullmatch(function.__name__):
            self.fail(None, f"a rule's name consists of letters, digits and underscores, not {function.__name__!r}: use def")
        for name, parameter in parameters.items():
            self._take(name, parameter)
        self._check_once()
        self.pairs = self._named()

    def fail(self, name: str | None, words: str) -> NoReturn:
        fail_at(place_of_argument(self.function, name), words)

    def states(self, chosen: dict[str, bool]) -> list[str]:
        """The states that there are with these options, in order."""
        return [name for name, role in self.order.items() if isinstance(role, State) and (role.when is None or chosen[role.when])]

    def _take(self, name, parameter):
        role, default = parameter.annotation, parameter.default
        if not _NAME.fullmatch(name) or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            self.fail(name, f"{parameter} is no argument of a rule: every state and number has a name of letters, digits and underscores")
        role = role() if isinstance(role, type) and issubclass(role, Role) else role
        if isinstance(role, New):
            self.fail(name, f"{name}: ag.New is what a rule returns, which a function under @ag.transform takes: a rule has an ag.Param")
        if isinstance(role, Square) and role.side not in ("rows", "columns"):
            self.fail(name, f"{name}: write ag.Square(\"rows\") for a square of rows x rows, or ag.Square(\"columns\")")
        if isinstance(role, State) and role._later:
            self.fail(name, f"{', '.join(role._later)}= of a state is not there yet: a state begins as 0; use ag.where(t == 1, …, …) on an ag.Step")
        if isinstance(role, _Number) and not (isinstance(role.first, Real) and math.isfinite(role.first)):
            self.fail(name, f"{name} begins as {role.first!r}, which is no finite number")
        if isinstance(role, Option):
            if not isinstance(default, bool):
                self.fail(name, f"option {name} needs a default: {name}: ag.Option = False")
            self.options[name] = default
        elif isinstance(role, Role):
            if default not in (parameter.empty, None):
                self.fail(name, f"{name} is given by the optimizer and has no default")
            self.order[name] = role
        elif role is not parameter.empty and role not in (float, int, tuple):
            self.fail(name, f"{name} has the annotation {role!r}, which is no role: {_WANTED}")
        else:
            self.hypers[name] = self._number(name, parameter)

    def _number(self, name, parameter):
        value = parameter.default
        if value is parameter.empty and parameter.kind == parameter.KEYWORD_ONLY:
            return None
        if value is parameter.empty:
            self.fail(name, f"argument {name} has no role: {_WANTED}")
        if isinstance(value, bool):
            self.fail(name, f"{name}={value} is a choice: write {name}: ag.Option = {value}")
        parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if not parts or not all(isinstance(part, Real) and not isinstance(part, bool) for part in parts):
            self.fail(name, f"{name}={value!r} is no number: a hyper-parameter is a number or a tuple of numbers")
        if not all(map(math.isfinite, parts)):
            self.fail(name, f"{name}={value!r}: a default is finite")
        return tuple(map(float, parts)) if isinstance(value, (tuple, list)) else float(value)

    def _check_once(self):
        for kind, least in ((Param, 1), (Grad, 1), (Step, 0)):
            names = [name for name, role in self.order.items() if isinstance(role, kind)]
            if len(names) > 1:
                self.fail(names[1], f"{' and '.join(names)} are both ag.{kind.__name__}: a rule has one"
                          + ("; a further tensor is an ag.Input" if kind is Grad else ""))
            if len(names) < least:
                self.fail(None, f"no argument is the {kind.__name__.lower()}: write {kind.__name__.lower()[0]}: ag.{kind.__name__}")
        for name, role in self.order.items():
            if isinstance(role, State) and not isinstance(role, _Number) and role.first != 0.0:
                self._check_first(name, role)
            if role.when is not None and role.when not in self.options:
                self.fail(name, f"when={role.when!r} names no option of the rule; there are {', '.join(self.options) or 'none'}")

    def _check_first(self, name, role):
        param = next(other for other, one in self.order.items() if isinstance(one, Param))
        if isinstance(role, Square):
            if not (isinstance(role.first, Real) and math.isfinite(role.first)):
                self.fail(name, f"{name} begins as {role.first!r}, which is no finite number to multiply the identity by")
        elif role.first != param or not type(role) is State:
            self.fail(name, f"{name} begins as {role.first!r}: an ag.State begins as 0, or as the parameter with first={param!r}; of other "
                            "values write ag.where(t == 1, …, …) on an ag.Step")
        if not any(isinstance(one, Step) for one in self.order.values()):
            begun = "the parameter" if type(role) is State else f"{role.first} times the identity"
            self.fail(name, f"{name} begins as {begun} in the first step: give the rule an ag.Step")

    def _named(self):
        """{name in the text: (hyper-parameter, place in its tuple or None)}: beta1 and beta2 for betas."""
        named = {}
        for name, value in self.hypers.items():
            parts = parts_named(name, value)
            for part, place in parts:
                if part in named or part in self.order or part in self.options or (part != name and part in self.hypers):
                    self.fail(name, f"{name} is {', '.join(p for p, _ in parts)} in the text of the rule, and {part} is another argument: "
                                    "rename one")
                named[part] = name, place
        return named


def of_entry(function: Callable[..., Any], rule: Signature) -> Callable[..., Any]:
    """A function for the entry of a rule, with the rule's roles and numbers, in its order, and a gradient even if the entry
    reads none. `writes` has the states that it may change."""
    try:
        parameters = dict(inspect.signature(function, eval_str=True).parameters)
    except NameError as error:
        fail_at(place_of_argument(function), f"an annotation names {error.name!r}, which there is not: write import "
                "altgrad.language as ag, and ag.State")
    own = rule.hypers | {part: rule.hypers[name][place] for part, (name, place) in rule.pairs.items() if place is not None}
    kind, kinds, states = inspect.Parameter.KEYWORD_ONLY, {type(role): name for name, role in rule.order.items()}, []
    places = {name: place for place, name in enumerate([*rule.order, *rule.hypers])}
    made = []
    for name, one in parameters.items():
        role = one.annotation() if isinstance(one.annotation, type) and issubclass(one.annotation, Role) else one.annotation
        where = kinds.get(type(role), name) if isinstance(role, (Param, Grad, Step)) else name
        if isinstance(role, Step) and Step not in kinds:
            fail_at(place_of_argument(function, name), f"the rule @{rule.function.__name__} counts no steps: give it an ag.Step, too")
        if isinstance(role, (State, Input)):
            if not isinstance(rule.order.get(name), (State, Input)):
                fail_at(place_of_argument(function, name), f"{name} is no state of the rule @{rule.function.__name__}: an entry has its states")
            states += [name] * isinstance(role, State)
            role = rule.order[name] if type(rule.order[name]) is not State else State(rule.order[name].when)
        if one.default is one.empty and name in own and not isinstance(role, Role):
            one = one.replace(default=own[name])
        made.append((places.get(where, len(places)), one.replace(kind=kind, annotation=role)))
    if not any(isinstance(one.annotation, Grad) for _, one in made):
        named = kinds[Grad] if kinds[Grad] not in parameters else "g_"
        made.append((places[kinds[Grad]], inspect.Parameter(named, kind, annotation=Grad)))

    def entry(**given):
        return function(**{name: given[name] for name in parameters})

    entry.__name__, entry.__qualname__, entry.__module__, entry.__doc__ = (
        function.__name__, function.__qualname__, function.__module__, function.__doc__)
    entry.stands_for, entry.writes = function, tuple(states)
    entry.__signature__ = inspect.Signature([one for _, one in sorted(made, key=lambda each: each[0])])
    return entry
