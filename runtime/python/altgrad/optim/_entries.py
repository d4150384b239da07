"""Entries of a rule: further steps over the parameters and states of an optimizer, each a program of its own."""

import inspect
from contextlib import contextmanager
from typing import Any

import torch

from .._binding.hooks import uncompiled
from .._binding.layout import PARAM_DTYPES
from .._bundle import compile_sets
from .._rule import SCOPES, Rule, find_rule, set_line
from .._storage.blocks import scale_key
from .._storage.master import extra_streams


def entry_of(rule: Rule, name: str) -> Rule:
    """The rule of an entry, which is called `rule_name`: `entry name` below its rule, or a rule of that name in its text."""
    return find_rule(rule.origin if rule.text is None else rule.text, f"{rule.name}_{name}")


def program_of(step: Rule, rule: Rule, options: "tuple[str, ...]") -> Any:
    """The Bundle of an entry over float32 tensors. Raises ValueError for what its rule does not have."""
    if step.declared("step") and not rule.declared("step"):
        raise ValueError(f"rule @{step.name} has a step, and rule @{rule.name} counts none: leave it out")
    for role in ("state", *SCOPES, "input"):
        own = [name for each in ("input", role if role != "input" else "state") for name in rule.declared(each)]
        for name in step.declared(role):
            if name not in own:
                raise ValueError(f"rule @{step.name} has a {role} {name!r}, which rule @{rule.name} has not: give it one, or leave it out")
    known = step.options()
    bundle = compile_sets([set_line(step, tuple([option for option in options if option in known]), {})], [step])
    if any([single.role == "random" for single in bundle.singles]):
        raise ValueError(f"rule @{step.name} has random numbers, which an entry cannot have: use them in rule @{rule.name}")
    return bundle


def method_of(name: str, doc: str) -> Any:
    """The method that runs an entry."""
    def run(self) -> None:
        enter(self, name)
    run.__name__, run.__doc__ = name, doc
    return run


@uncompiled
def enter(optimizer: Any, name: str) -> None:
    """Runs an entry once: with the gradients that there are, or, if it reads none, on all parameters that have its states.

    Gradients are neither clipped nor unscaled. States that the rule has, too, are made first.
    """
    owner = f"altgrad.optim.{type(optimizer).__name__}"
    with optimizer._lock, torch.no_grad():
        if optimizer._running:
            raise RuntimeError(f"{owner}: {name}() was called while a step of this optimizer runs; call it afterwards")
        own = _optimizer_of(optimizer, name)
        own._ranks, own._offload, own._counts = optimizer._ranks, optimizer._offload, optimizer._counts
        _check_inputs(own, f"{owner}: {name}()")
        if own._needs_others():
            optimizer._rebuild_for(False)
        with own._given_grads():
            own._advance()


def _optimizer_of(optimizer, name):
    """The optimizer of an entry, with the groups and states of today."""
    known = vars(optimizer).setdefault("_of_entries", {})
    if name not in known:
        kind = type(optimizer)
        made = type(kind)(kind.__name__, (_OfEntry, kind), {
            "__doc__": None, "__module__": __name__, "_entry": name, "_owner_inputs": optimizer._inputs})
        own = known[name] = made.__new__(made)
        own.__setstate__({**optimizer.__getstate__(), "state": {}, "param_groups": [], "_left_behind": False,
                          "fused_amp": False, "fallback": False, "_measures": False, "norm_in_backward": False,
                          "_ema": None})  # an average of weights is of the rule's steps
    own = known[name]
    if own.param_groups is not optimizer.param_groups or own.state is not optimizer.state:
        own.param_groups, own.state, own._words = optimizer.param_groups, optimizer.state, optimizer._words
        own._forget()
    return own


class _OfEntry:
    """What the optimizer of an entry has otherwise than the one that it belongs to."""

    _reference, _always_counts, _only_with, _clips = None, False, {}, False

    def _entry_for(self, group):
        """The rule that steps a group; None: the group's rule has no such entry."""
        return self._entries_of(group).get(self._entry)

    def _rule_of(self, group):
        return self._entry_for(group) or super()._rule_of(group)

    def _unstored(self, options):
        return ()

    def _options_of(self, group):
        rule = self._rule_of(group)
        return tuple([option for option in super()._options_of(group)
                      if option in rule.options() or "=" in option and rule.iterates()])

    def _group_rule_with(self, group_rule, matrices, param):
        return group_rule  # what other steps of the rule have is none of it

    def _declared(self, *roles):
        found = [entry for group in self.param_groups if (entry := self._entry_for(group))]
        return [*dict.fromkeys([name for entry in dict.fromkeys(found) for role in roles for name in entry.declared(role)])]

    def _stored(self, options, words):
        known = [name for name in self._declared("state") if name in self._keys or name in self._owner_inputs]
        return [(name, self._keys.get(name, name)) for name in known + [*self._inputs]] + extra_streams(words)

    def _forget(self):
        self._offload = None  # which is the owner's, with its hooks
        super()._forget()
        self._inputs = tuple(self._declared("input"))

    def _sum_early(self, built):
        pass  # it has no norm, and the sums of the owner stay

    def _needed(self, group, alone=True):
        """The keys that a parameter of a group has where the entry steps it, those that only entries have if they are read."""
        entry = self._entry_for(group)
        names = [name for name in entry.declared("state") if name in self._keys
                 and (name not in self._entry_states or alone and entry.needs(name))] + [
            name for role in (*SCOPES, "input") if role != "global" for name in entry.declared(role)]
        counts = [self._count_key] if entry.declared("step") and self._count_key else []
        return {self._keys.get(name, name) for name in names if name not in self._owner_inputs}.union(counts)

    def _needs_others(self):
        """Whether a parameter with a gradient lacks a state of the rule that this entry belongs to."""
        return any([param.grad is not None and not self._needed(group, alone=False) <= self.state.get(param, {}).keys()
                    for group in self.param_groups if self._reads_grads(group) for param in group["params"]])

    def _reads_grads(self, group):
        entry = self._entry_for(group)
        return entry is not None and entry.reads("grad")

    @contextmanager
    def _given_grads(self):
        """A context in which the parameters that the entry steps have a gradient, whatever it is if none is read, and the
        others none."""
        params = [(param, group) for group in self.param_groups for param in group["params"]]
        held = [param.grad for param, _ in params]
        try:
            for param, group in params:
                if not self._reads_grads(group):
                    has_states = self._entry_for(group) and self._needed(group) <= self.state.get(param, {}).keys()
                    param.grad = param.detach() if has_states else None
            yield
        finally:
            for (param, _), grad in zip(params, held):
                param.grad = grad


def _check_inputs(own, where):
    """Raises TypeError where the entry would read the codes of a state for its numbers: one that says `input`."""
    for held in own.state.values():
        for key in [own._keys.get(name, name) for name in own._inputs]:
            if key in held and (held[key].dtype not in PARAM_DTYPES or scale_key(key) in held):
                raise TypeError(f"{where} reads the state {key!r}, which is stored as codes, by an input: write the entry below its "
                                "rule, entry name, or store the state as f32, bf16 or f16")


def check_entry(taken: type, name: str, where: str) -> None:
    """Raises ValueError for the name of an entry that the optimizer uses itself."""
    if name.startswith("_") or inspect.getattr_static(taken, name, None) is not None:
        raise ValueError(f"{where}: the optimizer has a {name!r} of its own: give the entry another name")
