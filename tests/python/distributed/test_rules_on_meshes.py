"""Rules of one's own with values of rows, columns, units and squares, SOAP, and Shampoo in blocks, over DTensors: the bits of one process."""

from contextlib import nullcontext

import gemms
import pytest
import ranks
import torch
from meshes import place
from test_factored_on_meshes import places, whole

import altgrad

FACTORED = """rule factored(param w, grad g, row r, column c, lr = 0.05)
  r = r + mean(g * g over row)
  c = c + mean(g * g over column)
  w = w - lr * (g / sqrt(f32(r / mean(r over tensor)) * c + 1e-16))
"""
UNITS = "rule units(param w, grad g, unit v, lr = 0.05)\n  v = v + mean(g * g over unit)\n  w = w - lr * g / (sqrt(v) + 1e-8)\n"
SQUARES = """rule squares(param w, grad g, row_square l, lr = 0.01)
  l = lerp(l, matmul(g, transpose(g)), 0.1)
  w = w - lr * matmul(l, g)
"""
SUMS = """rule sums(param w, grad g, row_square l, column c, lr = 0.01)
  l = lerp(l, matmul(g, transpose(g)), 0.1)
  c = matmul(transpose(g), matmul(g, c) + diagonal(l)) / (trace(l) + norm(l) + 1)
  w = w - lr * g * c
"""
MATRICES = (12, 7), (9, 9), (16, 4)
SHAPES = {"SQUARES": MATRICES, "SUMS": MATRICES, "SOAP": (*MATRICES, (5,)), "MERGED": ((8, 4, 3, 3), (9, 9), (6, 2, 5)),
          "BLOCKS": (*MATRICES, (5,))}


def optimizer_of(name, params):
    if name == "SOAP":
        return altgrad.optim.SOAP(params, lr=0.01, precondition_frequency=2, precondition_1d=True)
    if name == "MERGED":
        return altgrad.optim.SOAP(params, lr=0.01, precondition_frequency=2, max_precond_dim=40, merge_dims=True)
    if name == "BLOCKS":
        return altgrad.optim.Shampoo(params, max_precond_dim=6, blocks=True, grafting_type="adam")
    return altgrad.optim.FromRule(globals()[name], storage="" if name in SHAPES else "master=f32")(params)


def train(name, homes, dtype):
    with gemms.Doubles() if name == "BLOCKS" else nullcontext():  # torch's bits depend on where blocks lie
        return trained(name, homes, dtype)


def trained(name, homes, dtype):
    torch.manual_seed(0)
    shapes = SHAPES.get(name, ((48, 96), (65, 40), (33, 7), (24,), (5,)))
    params = [torch.nn.Parameter(place(torch.randn(shape).to(dtype), home)) for shape, home in zip(shapes, homes)]
    optimizer = optimizer_of(name, params)
    for step in range(5):
        torch.manual_seed(step)
        for param, home, shape in zip(params, homes, shapes):
            param.grad = place(torch.randn(shape).to(dtype), home)
        optimizer.step()
        if step == 2:
            kept, optimizer = optimizer.state_dict(), optimizer_of(name, params)
            optimizer.load_state_dict(kept)
    return [whole(param).float().tolist() for param in params]


CASES = [(name, dtype) for name in ("FACTORED", "UNITS", "SQUARES", "SUMS", "SOAP", "MERGED", "BLOCKS")
         for dtype in (torch.float32, torch.bfloat16) if name not in ("SOAP", "MERGED", "BLOCKS") or dtype == torch.float32]


def on_meshes(rank, group):
    return [train(name, places(group.size()), dtype) for name, dtype in CASES]


@pytest.mark.parametrize("count", [2, 3])
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([on_meshes], tmp_path, count)
    expected = [train(name, [()] * 6, dtype) for name, dtype in CASES]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for found, alone, case in zip(answer, expected, CASES):
            assert found == alone, case
