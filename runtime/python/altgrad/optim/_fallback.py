"""The fallback: torch's class of the same name steps the parameters that kernels cannot, inside the same optimizer."""

from itertools import chain

import torch

from .._binding.layout import (WIDE_DTYPES, check_extents, check_kind, check_param, find_overlapping, is_dtensor, local_of,
                               name_of)
from .._binding.device_context import is_known
from .._binding.shards import is_elsewhere
from .._storage.counts import count_of
from .._warn import warn
from ._checks import check_numbers


def find_fallback(optimizer):
    """The TorchPart of the parameters that torch has to step now; None if there are none.

    Raises in altgrad's words for what torch could not step either. Only called for
    an optimizer whose `_falls_back` is true.
    """
    owner, reasons, candidates = type(optimizer).__name__, {}, []
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param.grad is not None and not is_elsewhere(param):
                try:
                    check_kind(owner, param, WIDE_DTYPES)  # before anybody asks where it lies
                except (TypeError, RuntimeError) as error:
                    raise type(error)(f"{error}: {name_of(optimizer, param)}") from None
                reason = _reason(optimizer, group, param)
                if reason:
                    _check(owner, local_of(param), group.get("fused"))
                    reasons[id(param)] = reason
                if is_known(param.device) and param.layout == torch.strided:
                    candidates.append(param)
    for place in find_overlapping(list(map(local_of, candidates))):
        reasons.setdefault(id(candidates[place]), "shares memory with another parameter")
    return TorchPart(optimizer, reasons) if reasons else None


def _check(owner, param, fused):
    if is_known(param.device) or param.is_meta:
        check_param(owner, param, fused, WIDE_DTYPES)
    else:
        check_kind(owner, param, WIDE_DTYPES)


def _reason(optimizer, group, param):
    """Why torch has to step this parameter, None if it need not."""
    if param.grad.is_sparse and not optimizer._takes_sparse:
        raise RuntimeError(f"{type(optimizer).__name__} does not support sparse gradients")
    if not is_known(param.device) and not param.is_meta:
        return f"is on {param.device}, where there are no kernels"
    if group.get("differentiable"):
        return "is in a group with differentiable=True"
    if param.dtype in WIDE_DTYPES:
        return f"is {param.dtype}"
    return "has a sparse gradient" if param.grad.is_sparse else None


class TorchPart:
    """The parameters of an optimizer that torch's class steps, in the groups they are in.

    They share the optimizer's state and hyper-parameters. What is done to their
    gradients before the step is done to copies: each parameter gets its own
    gradient back, whatever happens.
    """

    def __init__(self, optimizer, reasons):
        self._optimizer = optimizer
        self.ids = frozenset(reasons)
        self._lists = [[p for p in group["params"] if id(p) in reasons]
                       for group in optimizer.param_groups]
        self._params = list({id(p): p for p in chain.from_iterable(self._lists)}.values())
        self._seen = list(map(_look_of, self._params))
        self.first = self._params[0], reasons[id(self._params[0])]

    def changed(self):
        """Whether a parameter has another place in memory, or another kind of gradient. A gradient may be missing."""
        return any(now != seen and (now[0] != seen[0] or now[1] is not None)
                   for now, seen in zip(map(_look_of, self._params), self._seen))

    def grads(self, inverse):
        """The gradients times `inverse`, None for those that are not there.

        Raises RuntimeError where a tensor of this step ends behind its storage, TypeError or ValueError for a
        state that torch would find wrong when it has changed others already.
        """
        for group, params in zip(self._optimizer.param_groups, self._lists):
            if params:
                check_numbers(self._optimizer, group)
            for param in params:
                held = self._optimizer.state.get(param) or {} if param.grad is not None else {}
                if held:
                    _check_states(self._optimizer, group, param, held)
                check_extents([param, *[of for of in (param.grad, *held.values()) if isinstance(of, torch.Tensor)]])
        if not isinstance(inverse, torch.Tensor):
            if inverse == 1.0:
                return [p.grad for p in self._params]
            inverse = torch.tensor(inverse, dtype=torch.float64, device="cpu")
        with self._grad_mode():
            return [_times(p.grad, inverse) for p in self._params]

    @torch.no_grad()
    def finite(self):
        """Whether all gradients are, an int32 on the CPU."""
        values = [_values_of(p, p.grad) for p in self._params if p.grad is not None]
        return torch.tensor(all([bool(v.isfinite().all()) for v in values]), dtype=torch.int32, device="cpu")

    @torch.no_grad()
    def norms(self, grads, ranks, count):
        """The global norm of `grads` as torch's clip_grad_norm_ computes it, of what is counted here for each of
        `count` tops of these Ranks; 0 without any."""
        shares = list(map(ranks.share, self._params))
        return [_norm_of([_values_of(param, grad) for param, grad, share in zip(self._params, grads, shares)
                          if grad is not None and share.counted and share.top == top]) for top in range(count)]

    def step(self, grads, coefficient=None):
        """torch's step on `grads`, which are multiplied by `coefficient`, a constant."""
        kept = [p.grad for p in self._params]
        try:
            with self._grad_mode():
                for param, grad in zip(self._params, grads):
                    if coefficient is not None:
                        grad = _times(grad, coefficient)
                    if grad is not param.grad:
                        param.grad = grad
            shadow = self._shadow()
            # Below what wraps it for a profiler and for hooks: both see our step.
            step = type(shadow).step
            # States that are made in inference mode could never be changed outside of it; a count goes to the default
            # device.
            inside = torch.is_inference_mode_enabled()
            with torch.device("cpu"), torch.inference_mode(inside and any([p.is_inference() for p in self._params])):
                getattr(step, "__wrapped__", step)(shadow) if hasattr(step, "hooked") else step(shadow)
            self._optimizer._counters.fallbacks["torch"] += sum([grad is not None for grad in grads])
        finally:
            for param, grad in zip(self._params, kept):
                if param.grad is not grad:
                    param.grad = grad

    def _grad_mode(self):
        return torch.set_grad_enabled(bool(self._optimizer.defaults.get("differentiable")))

    def _shadow(self):
        """torch's optimizer over these parameters, made without its constructor, which makes states."""
        optimizer, groups = self._optimizer, []
        for group, params in zip(optimizer.param_groups, self._lists):
            if params:
                groups.append({**group, "params": params, **_ways(group, params)})
                for param in params:
                    optimizer._before_torch(param, group)
        shadow = optimizer._reference.__new__(optimizer._reference)
        torch.optim.Optimizer.__setstate__(shadow, {
            "defaults": optimizer.defaults, "state": optimizer.state, "param_groups": groups})
        return shadow


def _check_states(optimizer, group, param, held):
    """Raises TypeError or ValueError for a state that is partly there, or no tensor of the parameter's shape."""
    where = f"altgrad.optim.{type(optimizer).__name__}: the state of {name_of(optimizer, param)}"
    options = optimizer._options_of(group)
    for stream, key in optimizer._keys.items():
        value = held.get(key)
        # torch's SGD has None until there is a momentum.
        needed = optimizer._only_with.get(stream) in (None, *options) and optimizer._reference is not torch.optim.SGD
        if isinstance(value, torch.Tensor):
            if value.shape != param.shape:
                raise ValueError(f"{where}: {key} has the shape {tuple(value.shape)}, not {tuple(param.shape)}")
        elif needed or value is not None:
            raise TypeError(f"{where}: {key} is {value!r}, not a tensor")
    if optimizer._count_key:
        count = held.get(optimizer._count_key)
        if not isinstance(count, torch.Tensor):
            raise TypeError(f"{where}: {optimizer._count_key} is {count!r}, not a tensor")
        try:
            count_of(count, param.device)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{where}: {error}") from None


def _times(grad, factor):
    """A gradient or None times a 0-dim tensor."""
    if is_dtensor(grad):  # which takes no other tensor beside it
        return grad * factor.item()
    # Of two 0-dim tensors, a double would win over the gradient's dtype.
    return grad if grad is None else (grad * factor.to(grad.device)).to(grad.dtype)


def _values_of(param, grad):
    """The elements of a gradient that lie here, placed as the parameter."""
    if is_dtensor(grad):
        return local_of(grad if grad.placements == param.placements else grad.redistribute(placements=param.placements))
    return grad.coalesce()._values() if grad.is_sparse else grad


def _norm_of(values):
    norms = list(map(torch.linalg.vector_norm, values))
    norms = [norm.to(norms[0].device) for norm in norms]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros((), dtype=torch.float32, device="cpu")


def _look_of(param):
    """What decides, apart from the groups, whether torch steps a parameter."""
    grad, own = param.grad, local_of(param)
    place = param.dtype, own.data_ptr(), param.shape, param.stride()
    return place, None if grad is None else grad.layout


def _ways(group, params):
    """Which of torch's implementations are allowed: those that were asked for and take these tensors."""
    plain = all(p.is_floating_point() and (p.grad is None or not p.grad.is_sparse) for p in params)
    ways = {"fused": bool(group.get("fused")) and plain, "foreach": bool(group.get("foreach"))}
    if group.get("differentiable"):
        ways = dict.fromkeys(ways, False)
    return {key: value for key, value in ways.items() if key in group}


def warn_once(optimizer, part):
    """Warns once per optimizer that torch steps a parameter."""
    if optimizer._warned:
        return
    optimizer._warned = True
    owner, (param, reason) = type(optimizer).__name__, part.first
    warn(f"altgrad.optim.{owner}: {name_of(optimizer, param)} {reason}, so torch.optim.{optimizer._reference.__name__} "
         "updates it, and every other parameter that altgrad has no kernel for; optimizer.fallback_counts counts these "
         "updates, and fallback=False raises an error instead")
