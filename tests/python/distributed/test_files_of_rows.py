"""torch.distributed.checkpoint of rules that keep nothing of a parameter's shape: of rows, columns, units and squares alone."""

import functools

import pytest
import ranks
import torch
import torch.distributed.checkpoint as dcp
from meshes import place
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import altgrad

SHAPES = (48, 96), (65, 40), (24,)
UNITS = "rule units(param w, grad g, unit u, lr = 0.1)\n  u = lerp(u, mean(g * g over unit), 0.1)\n  w = w - lr * g / sqrt(u + 1e-8)\n"
SQUARES = """rule squares(param w, grad g, row_square l, lr = 0.1)
  l = lerp(l, matmul(g, transpose(g)), 0.1)
  w = w - lr * matmul(l, g)
"""
KINDS = {"Adafactor": altgrad.optim.Adafactor, "SM3": altgrad.optim.SM3, "units": altgrad.optim.FromRule(UNITS),
         "squares": altgrad.optim.FromRule(SQUARES)}
OPTIONS = StateDictOptions(), StateDictOptions(flatten_optimizer_state_dict=True)


def made(kind, homes):
    torch.manual_seed(0)
    model = torch.nn.Module()
    for index, (shape, home) in enumerate(zip(SHAPES, homes)):
        if kind != "squares" or len(shape) == 2:
            model.register_parameter(f"w{index}", torch.nn.Parameter(place(torch.randn(shape), home)))
    return model, KINDS[kind](model.parameters(), lr=0.05)


def train(model, optimizer, homes, steps):
    for step in steps:
        torch.manual_seed(step)
        for param, home in zip(model.parameters(), homes):
            param.grad = place(torch.randn(param.shape), home)
        optimizer.step()
    return [param.tolist() for param in whole(model)]


def whole(model):
    return [param.full_tensor() if isinstance(param, DTensor) else param for param in model.parameters()]


def saved(folder, rank, group):
    """Four steps, and the parameters of two steps and, from a file under other placements, two more."""
    mesh, found = init_device_mesh("cpu", (group.size(),)), []
    layouts = [()] * 3, [(mesh, [Shard(0)])] * 3, [(mesh, [Shard(1)])] * 2 + [()]
    for kind in KINDS:
        for options in OPTIONS:
            for number, (one, other) in enumerate(zip(layouts, layouts[1:] + layouts[:1])):
                model, optimizer = made(kind, one)
                train(model, optimizer, one, (0, 1))
                dcp.save(get_optimizer_state_dict(model, optimizer, options=options), checkpoint_id=(
                    at := folder / f"{kind}{OPTIONS.index(options)}{number}"))
                second, resumed = made(kind, other)
                with torch.no_grad():
                    for mine, theirs, home in zip(second.parameters(), whole(model), other):
                        mine.copy_(place(theirs, home))
                state = get_optimizer_state_dict(second, resumed, options=options)
                dcp.load(state, checkpoint_id=at)
                set_optimizer_state_dict(second, resumed, state, options=options)
                found.append((kind, train(model, optimizer, one, (2, 3)) == train(second, resumed, other, (2, 3))))
    return found


@pytest.mark.parametrize("count", [2, 3])
def test_goes_on_under_other_placements(count, tmp_path):
    answers, = ranks.run([functools.partial(saved, tmp_path)], tmp_path, count)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == [(kind, True) for kind in KINDS for _ in range(6)]
