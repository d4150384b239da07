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
        param = torch.nn.Parameter(torch.randn(shape, generator=draws))
        optimizer = Made([param], **hypers)
        first = param.detach().double()
        other = _Class(reference, first, hypers) if isinstance(reference, type) else _Function(
            rule, reference, first, {**dict(rule._signature.hypers), **hypers, **rule.options}, arrays)
        for step in range(1, steps + 1):
            param.grad = torch.randn(shape, generator=draws)
            optimizer.step()
            for name, value in other.step(param.grad.double(), step).items():
                mine = param.detach() if name == other.param else optimizer.state[param].get(name, optimizer.param_groups[0].get(name))
                largest[name] = max(largest.get(name, 0.0), (mine.double() - value.reshape(mine.shape)).abs().max().item())
        moved = max(moved, (param.detach().double() - first).abs().max().item())
    print(f"{rule.__name__}: the largest differences in {steps} steps, where the parameter moves by {moved:.2g}")
    for name, difference in largest.items():
        print(f"  {name:16} {difference:.2g}")
    return largest


class _Class:
    """An optimizer like torch's as the reference; only its parameter is compared."""

    param = "param"

    def __init__(self, kind, first, hypers):
        self.twin = torch.nn.Parameter(first.clone())
        self.optimizer = kind([self.twin], **hypers)

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
        self.kept = {self.param: first, **{name: first.clone() if value == self.param else torch.full(
            sizes.get(order[name] if isinstance(order[name], Square) else type(order[name]), first.shape), value,
            dtype=torch.float64) for name, value in begins.items()}}
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
        self.kept = {name: torch.as_tensor(value, dtype=torch.float64).expand(self.kept[name].shape).clone() for name, value in made.items()}
        return self.kept
