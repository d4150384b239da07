"""from_torch: a class of optimizers whose rules are traced from the step of another class."""

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from .._rule import Rule
from .._storage.line import Storage, StorageLike
from ..language._from_torch import Source, Traced, is_number
from ..language._signature import Column, State, Unit
from ..language._transform import Transform, compose
from ._from_rule import _SHARED, TAKEN, _Made
from ._optimizer import Optimizer

# torch's own entries of a group, which choose among implementations of one formula.
_WAYS = {"foreach", "fused", "capturable", "differentiable"}
_BAKED = TAKEN - _WAYS
_MOST = 16


class _OneOf(Rule):
    """One of several rules, which make up one text. More come when a group asks for another one."""

    def __init__(self, name: str, texts: "dict[str, str]") -> None:
        for key, value in (("name", name), ("texts", texts), ("origin", "<rule>")):
            object.__setattr__(self, key, value)

    @property
    def text(self) -> str:
        return "\n".join(self.texts.values())

    def __hash__(self) -> int:
        return hash(self.name)


class _FromTorch(Optimizer, metaclass=_Made):
    """What the classes of from_torch have in common: the rule of a group is that of its numbers and choices."""

    _kind: Any = None
    _given: "dict[str, Any]" = {}
    _transforms: "tuple[Transform, ...]" = ()
    _more: "dict[str, Any]" = {}  # the numbers of its transforms
    _count: "tuple[str, str, int] | None" = None
    _noted: "dict[str, str]" = {}  # {entry of a group: the one that it was when the group was made}
    _choosing: "list[str]" = []  # the entries of a group on which its rule may depend
    _variants: "dict[str, list[Traced]]" = {}  # by arguments and choices

    @torch._disable_dynamo
    def __init__(self, params: ParamsT, *args: Any, **given: Any):
        given, own = self._new_words(given), _parameters(self._kind)
        shared = {key: given.pop(key) for key in [one.name for one in _SHARED] if key in given and key not in own}
        if "storage" in given and "storage" not in own:
            raise TypeError(f"the class has its storage already: from_torch({self._kind.__name__}, storage=…)")
        more = {key: given.pop(key, value) for key, value in self._more.items()}
        names = [name for name in own if name != "params"]
        self._arguments: dict[str, Any] = dict(sorted({**self._given, **dict(zip(names, args)), **given}.items()))
        entries, self._settings = _example(self._kind, self._arguments)
        super().__init__(params, {**{key: value for key, value in entries.items() if key not in _BAKED}, **more}, **shared)

    def add_param_group(self, param_group: "dict[str, Any]") -> None:
        """Adds a group of parameters.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            RuleError: The step cannot be traced with what the group says.
            ValueError: The step asks how many dimensions a parameter has, and those of the group differ.
        """
        super().add_param_group(param_group)
        for name, key in self._noted.items():
            self.param_groups[-1].setdefault(name, self.param_groups[-1][key])
        try:
            self._rule_of(self.param_groups[-1])
        except (TypeError, ValueError, RuntimeError, SyntaxError):
            del self.param_groups[-1]
            raise

    def _rule_of(self, group):
        traced = self._variant_of(group)
        if traced.rank is not None and not {param.dim() for param in group["params"]} <= {traced.rank}:
            raise ValueError(f"altgrad.optim.{type(self).__name__}: its code asks how many dimensions a parameter has: put vectors "
                             "and matrices into groups of their own")
        self._keys, self._of_units = {**self._keys, **traced.keys}, {**self._of_units, **traced.units}
        texts = vars(self).setdefault("_texts", {})
        texts[traced.rule.__name__] = traced.rule.text
        return _OneOf(traced.rule.__name__, texts)

    def _variant_of(self, group):
        ranks = {param.dim() for param in group["params"]}
        known = self._variants.setdefault(_choices(self._settings, self._choosing, group), [])
        for traced in known:
            if traced.rank in (None, *ranks) and traced.holds(group):
                return traced
        if len(known) >= _MOST:
            raise RuntimeError(f"altgrad.optim.{type(self).__name__}: {_MOST} rules were made already for numbers of its groups, "
                               "which its code decides by; keep those that change to the ones that it computes with")
        entries = {key: dict.__getitem__(group, key) for key in [*self.defaults, *self._noted] if key in group and key not in self._more}
        for key, value in entries.items():
            if is_number(self._older.get(key)) and not (value is None or is_number(value) or value in (float("inf"), -float("inf"))):
                raise TypeError(f"{key} is {value!r}, not a number")
        before = sum(map(len, self._variants.values()))
        traced = trace(self._kind, self._arguments, entries, max(ranks, default=2), before, self._transforms)
        known.append(traced)
        traced.holds(group)  # which reads the numbers on which it depends
        return traced

    def load_state_dict(self, state_dict: "dict[str, Any]") -> None:
        """Loads a state_dict of this class or of the one that it was made of.

        Args:
            state_dict: What `state_dict()` gave.

        Raises:
            ValueError, TypeError: As Optimizer's. Nothing has changed then.
        """
        numbers = {self._keys[name]: role for name, role in self._of_units.items()}
        if isinstance(state_dict, dict) and isinstance(state_dict.get("state"), dict):
            state_dict = {**state_dict, "state": {place: _with_tensors(held, numbers) for place, held in state_dict["state"].items()}}
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for param in group["params"]:
                if isinstance(held := self.state.get(param), dict):
                    self._take(group, param, held, numbers)
        for key in [key for key in self.state if isinstance(key, str)]:  # a count that belongs to no parameter
            del self.state[key]

    def _take(self, group, param, held, numbers):
        """Makes of the state of a parameter in a file of the original class that of this class."""
        if self._count and self._count_key not in held:
            where, key, start = self._count
            count = {"group": group, "state": held, "states": self.state}[where].get(key)
            if count is not None:
                held[self._count_key] = torch.tensor(float(count) - start)
        rows = param.shape[:1] + (1,) * (param.dim() - 1) if param.dim() > 1 else (1,)
        for key in numbers.keys() & {*held}:
            size = (1,) * (param.dim() - 1) + param.shape[-1:] if issubclass(numbers[key], Column) else rows
            if held[key].numel() == 1:
                held[key] = held[key].reshape(()).to(torch.float32).expand(size).clone()
            elif held[key].numel() == math.prod(size):  # of a file of the original that has one dimension less
                held[key] = held[key].reshape(size)

    def _first_differs(self, group):
        return self._count_key is None

    def _options_of(self, group):
        return ()

    def __getstate__(self) -> "dict[str, Any]":
        return {**super().__getstate__(), "_arguments": self._arguments, "_settings": self._settings}


def _with_tensors(held, numbers):
    """A parameter's entry of a file, in which these numbers are tensors."""
    if not isinstance(held, dict):
        return held
    return held | {key: torch.tensor(float(held[key])) for key in numbers.keys() & {*held} if isinstance(held[key], (int, float))}


def _choices(settings, keys, group):
    """What is no number in the arguments and in a group, as one word."""
    return f"{settings} {[(key, group[key]) for key in keys if not is_number(group[key])]}"


def _example(kind, given):
    """The entries of a group that the class makes with these arguments, in its own words where they are wrong, and what of the
    arguments is in none of them: of an optimizer that keeps numbers as its own, all."""
    made = kind([torch.nn.Parameter(torch.zeros(2, 3))], **given)
    entries = {key: value for key, value in made.param_groups[0].items() if key != "params"}
    keeps = any(is_number(value) for value in vars(made).values())
    return entries, repr({key: value for key, value in given.items() if keeps or not (is_number(value) and key in entries)})


def _parameters(kind):
    return {name: one for name, one in inspect.signature(kind).parameters.items()
            if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}


def trace(kind: type, given: "dict[str, Any]", entries: "dict[str, Any]", rank: int, before: int = 0,
          transforms: "tuple[Transform, ...]" = ()) -> Traced:
    """The rule of a class with these arguments and entries of a group. There are some `before`: rules of one step have different names."""
    traced = Source(kind, given, entries, rank, _BAKED, f"_{before + 1}" * bool(before)).trace()
    if not transforms:
        return traced
    rule = compose(traced.rule, *transforms)
    states = {name: role for name, role in rule._signature.order.items() if isinstance(role, State) and name not in traced.keys}
    return traced._replace(rule=rule, keys=traced.keys | {name: name for name in states}, places=rule._signature.pairs | traced.places,
                           units=traced.units | {name: type(role) for name, role in states.items() if isinstance(role, (Unit, Column))})


_made: "dict[Any, type]" = {}


def from_torch(kind: "type[torch.optim.Optimizer]", storage: StorageLike = "", transforms: "Iterable[Transform]" = (),
               **given: Any) -> "type[Optimizer]":
    """A class whose step is the compiled step of another class, such as torch.optim.NAdam.

    The step is run on proxies, which hold no elements, and becomes a rule. Numbers of the groups, such as lr,
    may change in every step, and schedulers change them. A choice, such as `maximize`, or a number on which the
    code branches makes another rule, which is compiled when it is met. A branch on the step's number becomes a
    choice between its sides. States that are one number for a tensor are kept for each of its rows, in float32.

    Args:
        kind: A class like torch's whose step is plain code on tensors: elementwise functions, sums, norms.
        storage: In which formats states are stored, as FromRule takes it; states have the names that the class gives them.
        transforms: Functions under @ag.transform, which change the gradient before its step, or the parameter after it.
        given: Arguments of its constructor, which are the defaults of the new class.

    Returns:
        A class of the same name. Its constructor takes the arguments of `kind` and the keywords that all
        optimizers share; its `rule` prints as the text. It can be pickled.

    Raises:
        RuleError: The code does what a rule cannot; at its file and line.
        TypeError: It is no such class, or its constructor needs an argument that is not given.

    Example:
        >>> NAdam = altgrad.optim.from_torch(torch.optim.NAdam, storage="exp_avg=bf16")
        >>> optimizer = NAdam(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    """
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)) or issubclass(kind, Optimizer):
        raise TypeError(f"from_torch takes a class of torch.optim's kind, not {kind!r}")
    transforms = tuple(transforms)
    key = kind, str(Storage(storage)), transforms, repr(sorted(given.items()))
    if key not in _made:
        _made[key] = _make(kind, storage, transforms, dict(sorted(given.items())))
    return _made[key]


def _make(kind, storage, transforms, given):
    try:
        entries, settings = _example(kind, given)
    except TypeError as error:
        raise TypeError(f"from_torch({kind.__name__}): {error}") from None
    traced = trace(kind, given, entries, 2, transforms=transforms)
    base, numbers = traced.rule.optimizer(storage), traced.rule._signature.hypers  # what the compiler refuses, it refuses now
    kept = {key: value for key, value in entries.items() if key not in _BAKED}
    more = {name: numbers[name] for one in transforms for name in one.arguments() if name in numbers}
    choosing = sorted({*kept} - _WAYS)
    arguments = _arguments(kind, given, more)
    shared = [one for one in _SHARED if one.name not in {of.name for of in arguments}]
    described = [f"    {one.name}: As {'its transform' if one.name in more else kind.__name__} has it." for one in arguments[1:]]
    return _Made(kind.__name__, (_FromTorch,), {
        "__doc__": f"{kind.__module__}.{kind.__qualname__}, whose step is compiled.\n\nArgs:\n" + "\n".join(described),
        "__module__": __name__, "__signature__": inspect.Signature([*arguments, *shared]), "rule": traced.rule,
        "_kind": kind, "_given": given, "_transforms": transforms, "_more": more, "_choosing": choosing,
        "_variants": {_choices(settings, choosing, kept): [traced]}, "_rule": base._rule, "_storage": base._storage,
        "_keys": traced.keys, "_of_units": traced.units, "_older": {**kept, **more, **{name: entries[key] for name, key in traced.noted.items()}}, "_noted": traced.noted,
        "_hypers": {part: place if place[1] is not None else place[0] for part, place in traced.places.items()},
        "_count": traced.count, "_count_key": "step" if traced.count else None,
        "_always_counts": traced.count is not None and traced.count[:2] == ("state", "step"),
        "_recipe": (_again, (kind, str(Storage(storage)), transforms, given))})


def _arguments(kind, given, more):
    """The arguments of a made class: those of the class with other defaults, and the numbers of transforms."""
    own = [one.replace(default=given.get(name, one.default), kind=one.KEYWORD_ONLY if name in given else one.kind)
           for name, one in _parameters(kind).items()]
    numbers = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in more.items()]
    return [*sorted(own, key=lambda one: one.kind), *numbers]


def _again(kind, storage, transforms, given):
    return from_torch(kind, storage, transforms, **given)
