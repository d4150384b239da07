"""by_group: a class of optimizers whose groups are stepped by different rules, in one program."""

from collections.abc import Callable, Mapping
from itertools import compress
from typing import Any
import inspect
import re

import torch
from torch.optim.optimizer import ParamsT

from .._rule import Rule, joined
from .._storage.draws import is_stochastic
from .._storage.line import Storage, StorageLike
from .._storage.storage_line import LINE
from .._storage.streams import check_streams
from ._checks import check_hypers
from ._entries import method_of
from ._from_rule import _SHARED, TAKEN, _FromRule, _Made, check_parameters
from ._keywords import check_numbers, meant
from ._optimizer import Optimizer
from ._shapes import PartsOfMatrices
from ._timed import Timed


class _ByGroup(PartsOfMatrices, Optimizer, metaclass=_Made):
    """What the classes of by_group have in common: `rule` of a group says whose numbers it has and which rule steps it."""

    _kinds: "dict[str, type[_FromRule]]" = {}
    _rules: "dict[str, Rule]" = {}
    _choose: "Callable[[torch.Tensor], str] | None" = None
    _given: "dict[str, dict[str, Any]]" = {}  # the numbers of each rule

    @torch._disable_dynamo
    def __init__(self, params: ParamsT, rule: "str | Callable[[torch.Tensor], str] | None" = None, **given: Any):
        given = self._new_words(given)
        shared = {key: given.pop(key) for key in [one.name for one in _SHARED] if key in given}
        owner = f"altgrad.optim.{type(self).__name__}"
        for name in given.keys() - self._kinds.keys():
            raise TypeError(f"{owner} has no rule {name!r}" + meant(name, self._kinds))
        self._given = {name: self._checked_numbers(name, given.get(name) or {}, owner) for name in self._kinds}
        self._choose = rule if callable(rule) else None
        if not is_stochastic(Storage(self._storage)) and any([is_stochastic(Storage(kind._storage)) for kind in self._kinds.values()]):
            self._seed = shared.pop("seed", None)
        first = next(iter(self._kinds)) if rule is None or callable(rule) else rule
        super().__init__(params, {"rule": first}, **shared)

    def _checked_numbers(self, name, given, owner):
        known = self._kinds[name]._older
        for key in given.keys() - known.keys():
            raise TypeError(f"{owner}: rule {name!r} has no hyper-parameter {key}" + meant(key, known))
        check_numbers(owner, given, {key: value for key, value in known.items() if value is not None})
        numbers = {**known, **{key: tuple(value) if isinstance(known[key], tuple) else value for key, value in given.items()}}
        check_hypers({key: value for key, value in numbers.items() if value is not None})
        return numbers

    def add_param_group(self, param_group: "dict[str, Any]") -> None:
        """Adds a group, or one for each rule where a function says which rule a parameter has.

        Args:
            param_group: A dict with "params", "rule", and whatever differs from the rule's numbers.

        Raises:
            ValueError: There is no such rule, a number is missing, or the rule is of matrices and a parameter is none.
        """
        before = len(self.param_groups)
        try:
            for group in _parted(param_group, self._choose, self._kinds):
                name = group.get("rule", self.defaults["rule"]) if isinstance(group, dict) else None
                if isinstance(group, dict):
                    own = Storage(self._kinds[self._known(name)]._storage) | Storage(group.get(LINE, ""))
                    group = {**self._given[name], **group, "rule": name, **({LINE: str(own)} if own else {})}
                super().add_param_group(group)
                missing = [key for key, value in self.param_groups[-1].items() if value is None and key in self._given[name]]
                if missing:
                    raise ValueError(f"altgrad.optim.{type(self).__name__}: rule {name!r} gives no default to {', '.join(missing)}")
                check_parameters(self, self._kinds[name], self.param_groups[-1], len(self.param_groups) - 1)
        except (TypeError, ValueError, RuntimeError):
            del self.param_groups[before:]
            raise

    def _known(self, name):
        if name not in self._kinds:
            raise ValueError(f"altgrad.optim.{type(self).__name__} has no rule {name!r}" + meant(str(name), self._kinds))
        return name

    def _rule_of(self, group):
        return self._rules[self._known(group["rule"])]

    def _every_rule(self):
        return [*self._rules.values(), *super()._every_rule()]

    def _options_of(self, group):
        kind = self._kinds[group["rule"]]
        return kind._chosen + (self._units_word(kind._chosen) if kind._iterates else ())

    def _timed_of(self, group):
        return self._kinds[self._known(group["rule"])]._timed

    def _entries_of(self, group):
        return self._entries[self._known(group["rule"])]

    @property
    def _watched_keys(self):
        return {key for numbers in self._given.values() for key in numbers}

    def __getstate__(self) -> "dict[str, Any]":
        return {**super().__getstate__(), "_given": self._given}


def _parted(group, choose, kinds):
    """The group, or one for each rule, in the order of the rules."""
    if not isinstance(group, dict) or choose is None or "rule" in group:
        return [group]
    entries = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
    chosen = [choose(entry[1] if isinstance(entry, tuple) else entry) for entry in entries]
    order = [*[name for name in kinds if name in chosen], *sorted({str(name) for name in chosen} - kinds.keys())]
    return [{**group, "params": list(compress(entries, [one == name for one in chosen])), "rule": name} for name in order] or [group]


_made: "dict[Any, type]" = {}


def by_group(storage: StorageLike = "", **kinds: Any) -> "type[Optimizer]":
    """A class whose param_groups are stepped by different rules, in one program with one norm, one scaler and one commit.

    A group names its rule by `rule`, and has the hyper-parameters of that rule. The constructor takes `rule`, the name for
    groups without one or a function from a parameter to a name; a dict of hyper-parameters for each rule; and the keywords
    that all optimizers share.

    Args:
        storage: In which formats the states of all rules are stored, as FromRule takes it. A class of `kinds` that was made
            with a storage keeps it for its groups.
        kinds: For each name of a rule, a class of FromRule, a class of a rule in Python, or such a rule. The entries of all
            rules become methods; a method runs on the groups whose rule has the entry.

    Returns:
        A class of optimizers. It can be pickled if its rules can be.

    Raises:
        ValueError: Two rules have one name, or mean different numbers by one.
        TypeError: What is given is no such class.

    Example:
        >>> Both = altgrad.optim.by_group(hidden=altgrad.optim.FromRule("muon"), rest=altgrad.optim.FromRule("adamw"))
        >>> which = lambda param: "hidden" if param.dim() == 2 else "rest"
        >>> optimizer = Both(model.parameters(), rule=which, hidden=dict(lr=0.02), rest=dict(lr=3e-4), max_grad_norm=1.0)
    """
    kinds = {name: kind if isinstance(kind, type) else kind.optimizer() if hasattr(kind, "optimizer") else kind
             for name, kind in kinds.items()}
    for name, kind in kinds.items():
        if not (isinstance(kind, type) and issubclass(kind, _FromRule)):
            of_torch = f": of a class of from_torch write {name}=made.rule" if hasattr(kind, "rule") else ""
            raise TypeError(f"by_group takes classes of FromRule and rules in Python, and {name} is {kind!r}{of_torch}")
        if name in TAKEN or name == "rule" or name in [one.name for one in _SHARED]:
            raise ValueError(f"by_group: {name!r} is a keyword of the optimizer: give the rule another name")
    key = str(Storage(storage)), tuple(kinds.items())
    if key not in _made:
        _made[key] = _make(storage, kinds)
    return _made[key]


def _make(storage, kinds):
    rules, entries = _named_apart(kinds)
    text = _joined(rules.values())
    places = {}
    of_entries = _joined(one for named in entries.values() for one in named.values())
    for name, kind in kinds.items():
        for part in kind._hypers or kind._older:
            place = kind._hyper_place(kind, part)
            if places.setdefault(part, place) != place:
                raise ValueError(f"by_group: {part} is {places[part][0]!r} in one rule and {place[0]!r} in {name}: rename one of them")
    keys = {state: key for kind in kinds.values() for state, key in kind._keys.items()}
    alone = {state: name for name, kind in kinds.items() for state in kind._entry_states}
    for name, kind in kinds.items():
        for state in alone.keys() & kind._keys.keys() - {*kind._entry_states}:
            raise ValueError(f"by_group: {state!r} is a state of {name}, and of {alone[state]} for its entries alone: rename one of them")
    check_streams(storage, "by_group", keys, others={})
    signature = inspect.Signature([
        inspect.Parameter("params", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ParamsT),
        inspect.Parameter("rule", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="str | Callable | None"),
        *[inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Mapping[str, Any] | None") for name in kinds],
        *_SHARED])
    gathered = {name: tuple(dict.fromkeys([one for kind in kinds.values() for one in getattr(kind, name)]))
                for name in ("_step_states", "_inputs", "_tensor_states", "_entry_states")}
    return _Made("ByGroup", (Timed, _ByGroup) if any([kind._timed for kind in kinds.values()]) else (_ByGroup,), {
        "__doc__": "Groups that are stepped by different rules: " + ", ".join(f"{name} by @{rule.name}" for name, rule in rules.items()) + ".",
        "__module__": __name__, "__signature__": signature, "_kinds": kinds, "_keys": keys, "_storage": str(Storage(storage)),
        "_rules": {name: rule if rule.text is None else Rule(rule.name, text, "<rules>") for name, rule in rules.items()},
        "_entries": {name: {key: Rule(one.name, of_entries, "<rules>") for key, one in named.items()} for name, named in entries.items()},
        **{key: method_of(key, getattr(kinds[name], key).__doc__) for name, named in entries.items() for key in named},
        "_hypers": {part: place if place[1] is not None else place[0] for part, place in places.items()},
        "_recipe": (_again, (str(Storage(storage)), tuple(kinds.items()))), "_draws": any([kind._draws for kind in kinds.values()]), **gathered})


def _named_apart(kinds):
    """The rule and the entries of each kind. Of one function in Python with other options each choice gets a name of its own."""
    rules, entries, own = {}, {}, {}
    for name, kind in kinds.items():
        rule, steps = kind._rule, kind._entries
        if own.get(rule.name, rule) != rule and hasattr(kind, "_chooses"):
            called, ends = f"{rule.name}_{name}", "|".join([*steps, ""])
            text = re.sub(rf'(?:(?<=@)|(?<=altgrad.entry_of = ")){rule.name}(?=(?:_(?:{ends}))?[("])', called, rule.text)
            rule, steps = Rule(called, text, rule.origin), {key: Rule(f"{called}_{key}", text, one.origin) for key, one in steps.items()}
        if own.setdefault(rule.name, rule) != rule:
            raise ValueError(f"by_group: {name} is another rule called @{rule.name}: rename one of them")
        rules[name], entries[name] = rule, steps
    return rules, entries


def _joined(rules):
    """The texts of rules as one."""
    return joined([*dict.fromkeys(rule.text for rule in rules if rule.text is not None)])


def _again(storage: str, kinds: "Mapping[str, Any]") -> type:
    return by_group(storage, **dict(kinds))
