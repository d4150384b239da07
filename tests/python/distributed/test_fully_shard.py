"""Models under fully_shard train as on one process, and a step looks at no DTensor from outside."""

import gc
import os

import pytest
import ranks
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import altgrad


def made():
    torch.manual_seed(0)
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(96, 64), torch.nn.GELU(), linear(64, 33), linear(33, 1))


def run(model, optimizer, steps, first=0):
    """The norms of these steps, in which every rank has the same batch."""
    norms = []
    for step in range(first, first + steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(8, 96)).square().mean().backward()
        optimizer.step()
        norms.append(optimizer.grad_norm.item())
    return norms


class Dispatches(TorchDispatchMode):
    """Counts what is dispatched with a DTensor."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += any(issubclass(kind, DTensor) for kind in types)
        return function(*args, **(kwargs or {}))


def trained(rank, group):
    model = made()
    for layer in (model[0], model[2], model[3], model):
        fully_shard(layer)
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=0.01, max_grad_norm=0.1)
    norms = run(model, optimizer, 3)
    with Dispatches() as seen:
        optimizer.step()
    params = [p.full_tensor().tolist() for p in model.parameters()]
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        optimizer.step()
    gc.collect()
    grown = len(gc.get_objects()) - before
    kept = [value for held in optimizer.state.values() for value in held.values() if value.dim()]
    fit = all(value.placements == p.placements and value.shape == p.shape for p, held in optimizer.state.items()
              for value in held.values() if value.dim())
    return norms, params, seen.count, len(kept), fit, grown


@pytest.mark.parametrize("count", [2, 3])
def test_a_sharded_model_trains_as_a_whole_one(count, tmp_path):
    answers, = ranks.run([trained], tmp_path, count)
    model = made()
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=0.01, max_grad_norm=0.1)
    expected = run(model, optimizer, 3)
    optimizer.step()
    for answer in answers:
        assert not isinstance(answer, str), answer
        norms, params, dispatched, kept, fit, grown = answer
        assert dispatched == 0 and kept == 12 and fit and grown < 20
        assert norms == pytest.approx(expected, rel=1e-5)
        for got, param in zip(params, model.parameters()):
            torch.testing.assert_close(torch.tensor(got), param.detach(), rtol=1e-4, atol=1e-5)


def refusals(rank, group):
    """What is said where parameters are no shards that can be stepped."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2,))
    parted = lambda tensor, *kinds: distribute_tensor(tensor, mesh, kinds or [Shard(0)], src_data_rank=None)

    def step(name, values, group=None, **words):
        params = [torch.nn.Parameter(value) for value in values]
        optimizer = (name if isinstance(name, type) else getattr(altgrad.optim, name))(params, **words)
        for param in params:
            param.grad = param.detach().clone()
        optimizer.step()

    partial = DTensor.from_local(torch.ones(4), mesh, [Partial()], run_check=False)
    square = init_device_mesh("cpu", (1, 2))
    other = distribute_tensor(torch.ones(4, 4), square, [Replicate(), Shard(0)], src_data_rank=None)
    whole = torch.ones(64, 96)
    calls = [lambda: step("AdamW", [partial]),
             lambda: step("AdamW", [parted(torch.ones(4, 4)), other], max_grad_norm=1.0),
             lambda: step("Lion", [parted(whole.bfloat16(), Shard(1))], storage="param=bf16,stochastic", seed=1),
             lambda: step(altgrad.optim.FromRule("muon"), [parted(whole)]),
             lambda: step("SGD", [parted(torch.ones(7))], max_grad_norm="agc-unit:0.1"),
             lambda: step("SGD", [parted(whole, Shard(1))], max_grad_norm="agc-unit:0.1"),
             lambda: step("AdamW", [parted(torch.ones(4, 4)), other]),
             lambda: step("AdamW", [parted(torch.ones(4, 4)), parted(torch.ones(2 + rank))], max_grad_norm=1.0)]
    return [_said(call) for call in calls]


def partial_grads(rank, group):
    """A gradient that is still to be added up, as sequence parallelism leaves it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate
    mesh = init_device_mesh("cpu", (2,))
    param = torch.nn.Parameter(DTensor.from_local(torch.ones(4), mesh, [Replicate()], run_check=False))
    optimizer = altgrad.optim.SGD([param], lr=0.1, max_grad_norm=100.0)
    for _ in range(2):
        param.grad = DTensor.from_local(torch.full((4,), rank + 1.0), mesh, [Partial()], run_check=False)
        optimizer.step()
    return param.to_local().tolist(), optimizer.grad_norm.item()


def _said(call):
    try:
        return call()
    except (TypeError, ValueError, RuntimeError) as error:
        return str(error)


def test_what_cannot_be_stepped_is_refused_in_words(tmp_path):
    words = ["a Partial one has its numbers on no process",
             None,
             "random bits depend on an element's index in the whole tensor: shard dimension 0",
             None,
             "takes one norm of a vector, and other ranks have parts of it: use \"agc\"",
             "takes a norm for each index of dimension 0, and other ranks have parts of some: use \"agc\"", None, "has other DTensors with gradients"]
    answers, added = ranks.run([refusals, partial_grads], tmp_path)
    whole = torch.ones(4)
    for _ in range(2):
        whole.sub_(3.0, alpha=0.1)
    assert all(norm == 6.0 and torch.allclose(torch.tensor(got), whole) for got, norm in added), added
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert all(said is None if word is None else word in str(said) for said, word in zip(answer, words)), answer
