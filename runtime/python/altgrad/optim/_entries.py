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
    """The rule of an entry, which stands in the text of the rule that it belongs to as `rule_name`."""
    return find_rule(rule.origin if rule.text is None else rule.text, f"{rule.name}_{name}")


def hypers_of(step: Rule, rule: Rule) -> "dict[str, float | None]":
    """The hyper-parameters of an entry with their defaults. Raises ValueError for what its rule does not have."""
    if step.declared("step"):
        raise ValueError(f"rule @{step.name} has a step, which rule @{rule.name} counts: leave it out")
    for role in ("state", *SCOPES, "input"):
        own = [name for each in ("input", role if role != "input" else "state") for name in rule.declared(each)]
        for name in step.declared(role):
            if name not in own:
                raise ValueError(f"rule @{step.name} has a {role} {name!r}, which rule @{rule.name} has not: give it one, or leave it out")
    bundle = compile_sets([set_line(step, (), {})], [step])
    if any([single.role == "random" for single in bundle.singles]):
        raise ValueError(f"rule @{step.name} has random numbers, which an entry has not: draw them in rule @{rule.name}")
    return {hyper.key: hyper.default if hyper.has_default else None for hyper in bundle.sets[0].hypers}


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
    if optimizer.offload:
        raise RuntimeError(f"{owner}: {name}() does not go with offload=True: leave offload out")
    with optimizer._lock, torch.no_grad():
        if optimizer._running:
            raise RuntimeError(f"{owner}: {name}() was called while a step of this optimizer runs; call it afterwards")
        own = _optimizer_of(optimizer, name)
        own._ranks = optimizer._ranks
        _check_inputs(own, f"{owner}: {name}()")
        if optimizer._entries[name].reads("grad"):
            if own._needs_others():
                optimizer._rebuild_for(False)
            own._advance()
        else:
            with _proxy_grads(own):
                own._advance()


def _optimizer_of(optimizer, name):
    """The optimizer of an entry, with the groups and states of today."""
    known = vars(optimizer).setdefault("_of_entries", {})
    if name not in known:
        kind, rule = type(optimizer), optimizer._entries[name]
        made = type(kind)(kind.__name__, (_OfEntry, kind), {
            "__doc__": None, "__module__": __name__, "_entry": rule, "_owner_inputs": optimizer._inputs})
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

    _reference, _count_key, _always_counts, _only_with, _clips = None, None, False, {}, False

    def _rule_of(self, group):
        return self._entry

    def _options_of(self, group):
        return tuple([option for option in super()._options_of(group) if option in self._entry.options()])

    def _stored(self, options, words):
        extra = extra_streams(words)
        return [(name, self._keys.get(name, name)) for name in self._entry.declared("state") + list(self._inputs)] + extra

    def _forget(self):
        super()._forget()
        self._inputs = tuple(self._entry.declared("input"))

    def _names(self):
        return [self._keys.get(name, name) for role in ("state", *SCOPES, "input") if role != "global"
                for name in self._entry.declared(role)]

    def _needs_others(self):
        """Whether a parameter with a gradient lacks a state of the rule that this entry belongs to."""
        needed = [key for key in self._names() if key not in self._owner_inputs]
        return any([param.grad is not None and not {*needed} <= self.state.get(param, {}).keys()
                    for group in self.param_groups for param in group["params"]])


def _check_inputs(own, where):
    """Raises TypeError where the entry would read the codes of a state for its numbers."""
    for held in own.state.values():
        for key in [own._keys.get(name, name) for name in own._inputs]:
            if key in held and (held[key].dtype not in PARAM_DTYPES or scale_key(key) in held):
                raise TypeError(f"{where} reads the state {key!r}, which is stored as codes: store it as f32, bf16 or f16")


@contextmanager
def _proxy_grads(own):
    """A context in which the parameters that have all states have a gradient, whatever it is, and the others none."""
    params, needed = [param for group in own.param_groups for param in group["params"]], {*own._names()}
    held = [param.grad for param in params]
    try:
        for param in params:
            param.grad = param.detach() if needed <= own.state.get(param, {}).keys() else None
        yield
    finally:
        for param, grad in zip(params, held):
            param.grad = grad


def check_entry(taken: type, name: str, where: str) -> None:
    """Raises ValueError for the name of an entry that the optimizer uses itself."""
    if name.startswith("_") or inspect.getattr_static(taken, name, None) is not None:
        raise ValueError(f"{where}: the optimizer has a {name!r} of its own: give the entry another name")
