"""@ag.transform: a function that changes the gradient before any rule, or the new parameter after it."""

import inspect
import types
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any

from ._errors import fail, fail_at, place_of_argument
from ._rule import Rule
from ._signature import Grad, New, Param, Role, Signature, State, Step
from ._text import Results
from ._trace import current


class Transform:
    """A change of the gradient before a rule, or of the new parameter after it, made from a function by @ag.transform.

    Attributes:
        is_after: Whether it changes what the rule returns.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        try:
            parameters = inspect.signature(function, eval_str=True).parameters
        except NameError as error:
            fail_at(place_of_argument(function), f"an annotation names {error.name!r}, which there is not: write import "
                    "altgrad.language as ag, and ag.Grad")
        roles = {name: _role(one.annotation) for name, one in parameters.items()}
        news = [name for name, role in roles.items() if isinstance(role, New)]
        grads = [name for name, role in roles.items() if isinstance(role, Grad)]
        self.is_after: bool = bool(news)
        self._parameters, self._roles = parameters, roles
        if not news and not grads or len(news) > 1:
            fail_at(place_of_argument(function, news[1] if news else None), "a transform takes one g: ag.Grad, which it changes before the "
                    "rule, or one w: ag.New, which it changes after the rule")
        self._changes = (news or grads)[0]
        self._signature = Signature(_shim(function, roles, parameters))

    def arguments(self) -> "dict[str, inspect.Parameter]":
        """Its states, numbers and options by their names in a composed rule."""
        found = {}
        for name, one in self._parameters.items():
            role = self._roles[name]
            if not isinstance(role, (Param, Grad, Step, New)):
                if isinstance(role, State) and role.when:
                    role = type(role)(when=f"{self.__name__}_{role.when}")
                annotation, new = role if role is not None else one.annotation, f"{self.__name__}_{name}"
                found[new] = one.replace(name=new, annotation=annotation, kind=one.KEYWORD_ONLY)
        return found

    def apply(self, values: "Mapping[type, Any]", given: "dict[str, Any]") -> "tuple[Any, dict[str, Any]]":
        """(what it makes of the gradient or the new parameter, its new states by their names in the composed rule)"""
        own = {name: given[f"{self.__name__}_{name}"] if f"{self.__name__}_{name}" in self.arguments() else values[type(role)]
               for name, role in self._roles.items()}
        options = {name: given[f"{self.__name__}_{name}"] for name in self._signature.options}
        results = Results(self._signature, options, own, current("a transform"), first=self._changes)
        value, new = results.values(self._function(**own))
        return value, {f"{self.__name__}_{name}": one for name, one in new.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the function of a rule or of another transform: what this function returns there."""
        current(f"ag.transform {self.__name__}")
        return self._function(*args, **kwargs)

    def __reduce__(self) -> Any:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<altgrad transform {self.__name__}, {'after' if self.is_after else 'before'} a rule>"


def _role(annotation):
    made = annotation() if isinstance(annotation, type) and issubclass(annotation, Role) else annotation
    return made if isinstance(made, Role) else None


def _shim(function, roles, parameters):
    """A function whose arguments are those of a rule: a transform takes what it needs of a parameter and a gradient."""
    def shim():
        pass
    kind = inspect.Parameter.KEYWORD_ONLY
    more = {"p_": Param, "g_": Grad}
    for role in roles.values():
        more.pop("p_" if isinstance(role, Param) else "g_" if isinstance(role, Grad) else "", None)
    shim.__name__, shim.stands_for = function.__name__, function
    shim.__signature__ = inspect.Signature([
        *[one for name, one in parameters.items() if not isinstance(roles[name], New)],
        *[inspect.Parameter(name, kind, annotation=role) for name, role in more.items()]])
    return shim


class Composed(Rule):
    """A rule between transforms. Its text is what one function of all of them would say."""

    def __init__(self, rule: Rule, transforms: "tuple[Transform, ...]", chosen: "Mapping[str, bool]" = {}) -> None:
        self._rule, self._transforms = rule, transforms
        super().__init__(_composed(rule, transforms), rule._of, {**rule._chosen, **chosen})
        self.entries.update(rule.entries)

    def choose(self, **options: bool) -> Rule:
        return Composed(self._rule, self._transforms, {**self._chosen, **options})

    def __reduce__(self) -> Any:
        return Composed, (self._rule, self._transforms, self._chosen)


def _composed(rule, transforms):
    own, roles = rule._signature, {type(role): name for name, role in rule._signature.order.items()}
    parameters = dict(inspect.signature(rule._function, eval_str=True).parameters)
    parameters = {name: one.replace(kind=one.KEYWORD_ONLY) for name, one in parameters.items()}
    if Step not in roles and any(isinstance(role, Step) for one in transforms for role in one._roles.values()):
        roles[Step] = "t" if "t" not in parameters else "step_"
        parameters[roles[Step]] = inspect.Parameter(roles[Step], inspect.Parameter.KEYWORD_ONLY, annotation=Step)
    for one in transforms:
        if taken := parameters.keys() & one.arguments().keys():
            fail(f"{one.__name__} is there twice, or {min(taken)} is an argument of the rule: give one of the functions another name")
        parameters |= one.arguments()

    def composed(**given):
        values = {kind: given[name] for kind, name in roles.items() if kind in (Param, Grad, Step)}
        states = {}
        for one in [one for one in transforms if not one.is_after]:
            values[Grad], new = one.apply(values, given)
            states |= new
        inner = {name: given[name] for name in inspect.signature(rule._function).parameters} | {roles[Grad]: values[Grad]}
        options = {name: given[name] for name in own.options}
        values[New], new = Results(own, options, inner, current("a rule"), entries=rule._written()).values(rule._function(**inner))
        states |= new
        for one in [one for one in transforms if one.is_after]:
            values[New], new = one.apply(values, given)
            states |= new
        return values[New], states

    names = ", ".join(one.__name__ for one in transforms)
    composed.__name__ = composed.__qualname__ = "_".join([rule.__name__, *[one.__name__ for one in transforms]])
    first, *rest = inspect.cleandoc(rule.__doc__ or f"The rule @{rule.__name__}.").partition("\n")
    composed.__doc__ = f"{first.rstrip('.')}, with {names}." + "".join(rest)
    composed.__module__, composed.stands_for = rule.__module__, getattr(rule._function, "stands_for", rule._function)
    composed.__signature__ = inspect.Signature([*parameters.values()])
    return composed


def compose(rule: Rule, *transforms: Transform) -> Rule:
    """A rule that has transforms before and after it: those of the gradient first, in order, then the rule, then the others.

    States and numbers of a transform have its name before their own: `grokfast_ema`, `grokfast_lamb`. The text is
    what one function would say that calls all of them, and rounds as it.

    Args:
        rule: A function under @ag.rule.
        transforms: Functions under @ag.transform.
    """
    if not isinstance(rule, Rule) or not all(isinstance(one, Transform) for one in transforms):
        wrong = next((one for one in transforms if not isinstance(one, Transform)), rule)
        fail(f"transforms are functions under @ag.transform, around a rule in Python, and {wrong!r} is none")
    return Composed(rule, transforms) if transforms else rule


def transform(function: Callable[..., Any]) -> Transform:
    """Makes a transform of a function, which `rule.optimizer(transforms=[…])` and `ag.compose` put around a rule.

    Arguments are annotated as a rule's are. A function that takes `w: ag.New` changes the parameter that the rule
    returns; `p: ag.Param` is the parameter before the step and `g: ag.Grad` the gradient that the rule got. Any
    other takes `g: ag.Grad` and changes the gradient before the rule gets it. It returns the changed value, and a
    dict of its new states.

    Raises:
        RuleError: An argument has no role, or there is nothing that it changes.
    """
    if isinstance(function, (Rule, Transform)) or not isinstance(function, types.FunctionType):
        fail(f"@ag.transform stands over a function, not over {function!r}")
    return Transform(function)
