"""The step as an operator, altgrad::step: torch.compile puts it into one graph with forward and backward.

What is traced reads parameters, gradients, states and numbers of an optimizer and hands them to the operator. Whoever
runs the graph may do so with other tensors than the optimizer's, such as copies. So the operator steps what it is
given, with a second optimizer of the same class, whose tables are bound to those tensors.
"""

import weakref
from collections import defaultdict
from itertools import chain, count
from operator import is_
from typing import Any, Sequence  # noqa: UP035  torch reads it

import torch
from torch import Tensor
from torch.library import custom_op
from typing_extensions import Self

from .._binding.layout import PARAM_DTYPES
from .._storage.draws import COUNT
from .._storage.history import HISTORY

_optimizers, _names = weakref.WeakValueDictionary(), count(1)
# Of a group: what no step depends on, and what steps change.
_ASIDE, _CHANGED = ("params", "param_names"), (COUNT, HISTORY)


class _Held:
    """The groups and states of an optimizer. torch would make constants of them if it found them in an Optimizer."""

    def __init__(self, optimizer):
        self.groups, self.states = _own(optimizer)

    def are_of(self, optimizer):
        return all(map(is_, (self.groups, self.states), _own(optimizer)))


def _own(optimizer):
    own = optimizer.__dict__
    return own.get("param_groups"), own.get("state")


class Traced(torch.optim.Optimizer):
    """What an optimizer has for the operator: a name by which it is found, and the optimizer that steps in its place."""

    _operator_optimizer = _held = None

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        made = super().__new__(cls)
        made._name = f"{next(_names)}"  # graphs are made for one str
        _optimizers[made._name] = made
        return made

    def _hold(self):
        """Has the operator know the groups and states of today."""
        if self._held is None or not self._held.are_of(self):
            self._held = _Held(self)
        self._operator_optimizer = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Resets the gradients of all parameters, as torch's optimizers do.

        Args:
            set_to_none: Whether gradients become None, or tensors of zeros.
        """
        if not torch.compiler.is_dynamo_compiling():
            return super().zero_grad(set_to_none)
        for group in self._held.groups:  # torch does not trace its own
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad = torch.zeros_like(param.grad)


def trace(optimizer):
    """Puts the step into the graph that is traced. Returns False, and does nothing, where the operator cannot do it,
    and where torch does not trace backward either: looking at every tensor takes a tracer 25 ms for each parameter."""
    if not getattr(torch._dynamo.config, "trace_autograd_ops", False):
        return False
    if (optimizer.offload or optimizer._ranks is not None or optimizer._measures or optimizer.norm_in_backward
            or optimizer.fused_amp or getattr(optimizer, "grad_scale", None) is not None
            or getattr(optimizer, "found_inf", None) is not None):
        return False
    groups, held = optimizer._held.groups, optimizer._held.states
    numbers, rates, words = flatten_groups(groups, optimizer._step_states)
    params, grads, states, places = [], [], [], []
    for place, param in enumerate([param for group in groups for param in group["params"]]):
        if param.grad is None:
            continue
        if param.dtype not in PARAM_DTYPES or param.grad.layout != torch.strided:
            return False
        for state in held[param].values() if param in held else ():
            if not isinstance(state, Tensor):
                return False
            states.append(state)
        params.append(param)
        grads.append(param.grad)
        places.append(place)
    if words is None:
        return False
    if params:
        with torch.no_grad():
            torch.ops.altgrad.step(params, grads, states, numbers, rates, places, optimizer._name, words)
    return True


def flatten_groups(groups, step_states=()):
    """(floats as tensors, tensors, everything else in words) that the groups say, in their order; the words are None
    where a step would change what a group says, such as its `step_states`.

    A graph is made for one float, and for every number of a tensor; of a float's product with a tensor torch makes one.
    """
    numbers, tensors, words, one = [], [], "", torch.ones((), dtype=torch.float64, device="cpu")
    for group in groups:
        for key, value in group.items():
            if key in _ASIDE:
                continue
            for part in _flat(value):
                if isinstance(part, float):
                    numbers.append(one * part)
                elif isinstance(part, Tensor) and key not in _CHANGED and key not in step_states:
                    tensors.append(part)
                elif part is None or isinstance(part, (bool, int, str, torch.dtype)):
                    words += f"{key}={part} "
                else:
                    return [], [], None
        words += "; "
    return numbers, tensors, words


def _flat(value):
    """What a tuple of tuples has, such as Muon's coefficients for each step; or the value alone."""
    return [part for each in value for part in _flat(each)] if isinstance(value, tuple) else [value]


@custom_op("altgrad::step", mutates_args={"params", "states"})
def _step(params: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[Tensor], numbers: Sequence[Tensor],
          rates: Sequence[Tensor], places: Sequence[int], optimizer: str, words: str) -> None:
    own = _optimizers.get(optimizer)
    if own is None or not own._held.are_of(own) or flatten_groups(own.param_groups, own._step_states)[2] != words:
        raise RuntimeError("altgrad::step: the optimizer that this graph was made for "
                           + ("is gone" if own is None else "has other groups, states or options now: call its step "
                              "outside of torch.compile once"))
    if own._operator_optimizer is None:
        own._operator_optimizer = OptimizerForOperator(own)
    own._opt_called = True  # what a scheduler asks for
    own._operator_optimizer.step(params, grads, states, places, iter(numbers), iter(rates))
    own._norm = own._operator_optimizer.optimizer._norm


@_step.register_fake
def _(params, grads, states, numbers, rates, places, optimizer, words):
    if torch.compiler.is_exporting():
        raise RuntimeError("altgrad.optim: step() is for one optimizer of this process, and torch.export makes graphs "
                           "for others; export the model, and call step() outside of what is exported")


class OptimizerForOperator:
    """An optimizer like another one, which it does not keep, that steps other tensors."""

    def __init__(self, optimizer):
        self._like, self._seen = weakref.ref(optimizer), None
        self.optimizer = type(optimizer).__new__(type(optimizer))
        self.optimizer.__setstate__({**optimizer.__getstate__(), "state": defaultdict(dict), "param_groups": []})

    @torch.no_grad()
    def step(self, params, grads, states, places, numbers, rates):
        seen = list(places), [tensor.data_ptr() for tensor in chain(params, states)]
        if seen != self._seen:
            self._take(params, iter(states), places)
            self._seen = seen
        for group, like in zip(self.optimizer.param_groups, self._like().param_groups):
            _fill(group, like, numbers, rates)
        for param, grad in zip(self._params, grads):
            param.grad = grad
        try:
            with self.optimizer._lock:
                self.optimizer._advance()
        finally:
            for param in self._params:
                param.grad = None
        self._give(places)

    def _take(self, params, states, places):
        """Binds other tensors; `states` has those of each parameter, in the order of their keys."""
        own, like = self.optimizer, self._like()
        # Of their own, so that nobody else's gradient is touched.
        self._params = [param.detach() for param in params]
        mine, originals = dict(zip(places, self._params)), _params_of(like)
        self._given = [{key: next(states) for key in like.state.get(originals[place], ())} for place in places]
        own.state = defaultdict(dict, {param: dict(given) for param, given in zip(self._params, self._given)})
        first, own.param_groups = 0, []
        for group in like.param_groups:
            last = first + len(group["params"])
            params = [mine[place] for place in range(first, last) if place in mine]
            own.param_groups.append({"params": params})
            first = last
        own._forget()

    def _give(self, places):
        """Hands on what was not changed in place: new states, and those that kernels keep in another order."""
        for place, param, given in zip(places, self._params, self._given):
            for key, state in self.optimizer.state[param].items():
                if key not in given:
                    given[key] = self._like().state[_params_of(self._like())[place]][key] = state
                elif state is not given[key]:
                    given[key].copy_(state)


def _params_of(optimizer):
    return list(chain.from_iterable([group["params"] for group in optimizer.param_groups]))


def _fill(group, like, numbers, rates):
    """Gives a group the numbers and rates of the graph, and whatever else another group says."""
    def own(value):
        if isinstance(value, tuple):
            return tuple(map(own, value))
        return next(numbers).item() if isinstance(value, float) else next(rates) if isinstance(value, Tensor) else value

    for key, value in like.items():
        if key not in _ASIDE:
            group[key] = own(value)

