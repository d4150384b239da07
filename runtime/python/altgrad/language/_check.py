"""rule.check: the compiled steps of a rule beside a reference in float64."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from ._signature import Column, Global, Grad, Param, Row, Scalar, Square, State, Step, Unit


def check(rule: Any, reference: Any, steps: int, shapes: Any, seed: int, arrays: str, hypers: "dict[str, Any]") -> dict[str, float]:
    if arrays not in ("numpy", "torch"):
        raise ValueError(f"arrays is {arrays!r}, neither 'numpy' nor 'torch'")
    largest, moved, Made = {}, 0.0, rule.optimizer()
    draws = torch.Generator().manual_seed(seed)
    for shape in shapes:
        param = torch.nn.Parameter(torch.randn(shape, generator=draws, dtype=torch.float32))
        optimizer = Made([param], **hypers)
        first = param.detach().double()
        numbers = {**dict(rule._signature.hypers), **hypers}
        other = _Class(rule, reference, first, numbers, hypers) if isinstance(reference, type) else _Function(
            rule, reference, first, {**numbers, **rule.options}, arrays)
        for step in range(1, steps + 1):
            param.grad = torch.randn(shape, generator=draws, dtype=torch.float32)
            optimizer.step()
            for name, value in other.step(param.grad.double(), step).items():
                mine = param.detach() if name == other.param else optimizer.state[param].get(name, optimizer.param_groups[0].get(name))
                if mine is None:  # no step has had this state
                    continue
                largest[name] = _larger(largest.get(name, 0.0), _difference(mine.double(), value.reshape(mine.shape)))
        moved = _larger(moved, _difference(param.detach().double(), first))
    print(f"{rule.__name__}: the largest differences in {steps} steps, where the parameter moves by {moved:.2g}")
    for name, difference in largest.items():
        print(f"  {name:16} {difference:.2g}")
    return largest


def _difference(one, other):
    """The largest magnitude of the difference: NaN where one alone is NaN, 0 where both are the same infinity or NaN."""
    same = (one == other) | (one.isnan() & other.isnan())
    return torch.where(same, 0.0, (one - other).abs()).max().item() if one.numel() else 0.0


def _larger(one, other):
    """The larger number, or NaN, which Python's max passes over."""
    return one if one != one or one >= other else other


class _Class:
    """An optimizer like torch's as the reference, with the rule's numbers where it has the name; only its parameter is compared."""

    def __init__(self, rule, kind, first, numbers, hypers):
        self.param = next(name for name, role in rule._signature.order.items() if isinstance(role, Param))
        self.twin, known = torch.nn.Parameter(first.clone()), inspect.signature(kind).parameters
        self.optimizer = kind([self.twin], **{name: value for name, value in numbers.items()
                                              if value is not None and (name in known or name in hypers)})

    def step(self, grad, step):
        self.twin.grad = grad
        self.optimizer.step()
        return {self.param: self.twin.detach()}


class _Function:
    """A function of the rule's arguments, by name, as the reference."""

    def __init__(self, rule, function, first, numbers, arrays):
        order = rule._signature.order
        self.states, self.function, self.numbers, self.arrays = rule._signature.states(rule.options), function, numbers, arrays
        self.names = {kind: next((name for name, role in order.items() if isinstance(role, kind)), "") for kind in (Param, Grad, Step)}
        self.param = self.names[Param]
        rows = first.shape[:1] + (1,) * (first.dim() - 1) if first.dim() > 1 else (1,)  # a vector is one unit
        sizes = {Unit: rows, Row: first.shape[:-1] + (1,), Column: (1,) * (first.dim() - 1) + first.shape[-1:], Scalar: (), Global: ()}
        square = dict(zip(("rows", "columns"), first.shape[-2:] if first.dim() > 1 else (1, 1)))
        sizes |= {role: (square[role.side],) * 2 for role in order.values() if isinstance(role, Square)}
        begins = {name: getattr(order[name], "first", 0.0) for name in self.states}
        self.kept = {self.param: first}
        for name, value in begins.items():
            role = order[name]
            size = sizes.get(role if isinstance(role, Square) else type(role), first.shape)
            self.kept[name] = first.clone() if value == self.param else value * (
                torch.eye(size[0], dtype=torch.float64) if isinstance(role, Square) else torch.ones(size, dtype=torch.float64))
        self.absent = {name: None for name, role in order.items() if isinstance(role, State) and name not in self.states}
        parameters = inspect.signature(function).parameters.values()
        self.takes = None if any(one.kind == one.VAR_KEYWORD for one in parameters) else {one.name for one in parameters}

    def step(self, grad, step):
        tensors = {**self.kept, self.names[Grad]: grad}
        values = {name: value.numpy().copy() if self.arrays == "numpy" else value.clone() for name, value in tensors.items()}
        values |= {**self.absent, self.names[Step]: step, **self.numbers}
        out = self.function(**{name: value for name, value in values.items() if self.takes is None or name in self.takes})
        new, *rest = out if isinstance(out, tuple) else (out,)
        rest = rest[0] if len(rest) == 1 and isinstance(rest[0], Mapping) else dict(zip(self.states, rest))
        missing = [name for name in self.states if rest.get(name) is None]
        if missing:
            raise ValueError(f"the reference returns no {', '.join(missing)}: it returns what the rule returns")
        made = {self.param: new, **{name: rest[name] for name in self.states}}
        # A view such as q[:, ::-1] has strides that torch does not take.
        made = {name: value.copy() if hasattr(value, "copy") else value for name, value in made.items()}
        self.kept = {name: torch.as_tensor(value, dtype=torch.float64).expand(self.kept[name].shape).clone() for name, value in made.items()}
        return self.kept
