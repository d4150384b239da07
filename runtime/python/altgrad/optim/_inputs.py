"""Tensors that a rule only reads, which the caller gives for one step."""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager

import torch

from .._binding.layout import name_of
from .._binding.offload import at_home

Inputs = Sequence[torch.Tensor | None] | Mapping[torch.Tensor, torch.Tensor]


def given_inputs(optimizer, inputs):
    """A context in which the states of the parameters have these tensors, under the names of the rule's inputs.

    Raises ValueError or TypeError for a name that is no input, another number of tensors, or another shape.
    """
    return _held(optimizer, _checked(optimizer, inputs))


def _checked(optimizer, inputs):
    """[(parameter, name, tensor)]."""
    owner, params, all_given = type(optimizer).__name__, [p for group in optimizer.param_groups for p in group["params"]], []
    if not isinstance(inputs, Mapping):
        raise TypeError(f"altgrad.optim.{owner}: inputs is {type(inputs).__name__}, expected a dict from names to tensors")
    for name, given in inputs.items():
        if name not in optimizer._inputs:
            raise ValueError(f"altgrad.optim.{owner}: its rule has no input {name!r}; "
                             + (f"it has {', '.join(map(repr, optimizer._inputs))}" if optimizer._inputs else "it has none"))
        if not isinstance(given, (Mapping, Sequence)):
            raise TypeError(f"altgrad.optim.{owner}: input {name!r} is {type(given).__name__}, expected a list with a tensor for each "
                            "parameter or a dict from parameters to tensors")
        if not isinstance(given, Mapping) and len(given) != len(params):
            raise ValueError(f"altgrad.optim.{owner}: input {name!r} has {len(given)} tensors for {len(params)} parameters")
        for param, tensor in given.items() if isinstance(given, Mapping) else zip(params, given):
            if tensor is not None:
                _check(optimizer, param, name, tensor)
                all_given.append((param, name, tensor))
    return all_given


def _check(optimizer, param, name, tensor):
    owner, of = type(optimizer).__name__, f"input {name!r} of {name_of(optimizer, param)}"
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"altgrad.optim.{owner}: {of} is {type(tensor).__name__}, expected a tensor")
    if tensor.shape != param.shape:
        raise ValueError(f"altgrad.optim.{owner}: {of} has shape {tuple(tensor.shape)}, expected {tuple(param.shape)}")


@contextmanager
def _held(optimizer, all_given):
    for param, name, tensor in all_given:
        optimizer.state[param][name] = at_home(optimizer, tensor.detach() if tensor.requires_grad else tensor)
    try:
        yield
    finally:
        for param, name, _ in all_given:
            optimizer.state[param].pop(name, None)
            if not optimizer.state[param]:
                del optimizer.state[param]
