"""torch.compile of a step whose optimizer has a scheduler: one graph for all rates, with the bits of eager steps."""

import warnings

import pytest
import torch
from torch._dynamo import config
from torch._dynamo.utils import counters
from torch.optim import lr_scheduler, swa_utils

import altgrad

pytestmark = pytest.mark.skipif(not hasattr(config, "trace_autograd_ops"), reason="torch traces no backward")
SCHEDULERS = {
    "Exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "OneCycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "Sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, total_iters=3), lr_scheduler.CosineAnnealingLR(o, 7)], [3]),
    "Chained": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)]),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=12),
}
CLASSES = {"AdamW": lambda ps, lr: altgrad.optim.AdamW(ps, lr=lr), "SGD": lambda ps, lr: altgrad.optim.SGD(ps, lr=lr, momentum=0.9)}


def train(make, schedule, compiled, lr=0.1):
    """(parameters, moments and rates after twelve steps; the steps' graphs)."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(1)
    model, x = torch.nn.Linear(4, 3), torch.randn(5, 4)
    optimizer = make(model.parameters(), lr)
    scheduler = schedule(optimizer)

    def step(x):
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    with config.patch(trace_autograd_ops=True):
        run = torch.compile(step, fullgraph=True, backend="aot_eager") if compiled else step
        for _ in range(12):
            loss = run(x)
            scheduler.step(*[loss] * isinstance(scheduler, lr_scheduler.ReduceLROnPlateau))
    states = [value for held in optimizer.state.values() for value in held.values()]
    return [*model.parameters(), *states, torch.tensor(scheduler.get_last_lr())], counters["stats"]["unique_graphs"]


def check(make, schedule, lr=0.1):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # torch's, of a scheduler that saw no step before its own
        eager, _ = train(make, schedule, False, lr)
        compiled, graphs = train(make, schedule, True, lr)
    assert all(map(torch.equal, eager, compiled)) and len(eager) == len(compiled)
    assert graphs <= 3  # for the first step, for the first rate in others, and for all rates


@pytest.mark.parametrize("name", SCHEDULERS)
def test_one_graph_takes_every_rate(name):
    check(CLASSES["AdamW"], SCHEDULERS[name])


def test_a_schedule_by_the_loss():
    check(CLASSES["AdamW"], lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5))


def test_a_schedule_of_momentum_too():
    check(CLASSES["SGD"], SCHEDULERS["OneCycle"])


def test_rates_in_tensors_beside_betas_in_floats():
    check(lambda ps, lr: altgrad.optim.AdamW(ps, lr=lr.clone()), SCHEDULERS["OneCycle"], torch.tensor(0.1))


@pytest.mark.parametrize("library", [torch, altgrad])
def test_a_scheduler_before_the_first_step_is_told_as_by_torch(library):
    param = torch.nn.Parameter(torch.ones(3))
    param.grad = torch.ones(3)
    optimizer = library.optim.AdamW([param])
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    optimizer = library.optim.AdamW([param])
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
