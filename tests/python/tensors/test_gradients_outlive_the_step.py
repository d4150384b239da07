"""Nobody frees a gradient between the look at it and the kernel that reads it; afterwards it is let go."""

import copy

import pytest
import torch
import twins
from torch.multiprocessing.reductions import StorageWeakRef

import altgrad


class Number:
    """A learning rate that runs code whenever it is read."""

    def __init__(self, act):
        self.act = act

    def __float__(self):
        self.act()
        return 0.1


@pytest.fixture
def trained():
    params, = twins.make([(300,), (300,)], count=1)
    twins.give_grads(params)
    optimizer = altgrad.optim.AdamW(params, lr=0.1)
    optimizer.step()
    return optimizer, params


def test_a_gradient_that_another_thread_drops(trained):
    optimizer, params = trained
    table = optimizer._built.tables[0]
    assert table.validate(params, optimizer.state) == 2
    dropped = [StorageWeakRef(p.grad.untyped_storage()) for p in params]
    optimizer.zero_grad()
    assert not any(ref.expired() for ref in dropped)
    table.run({})
    assert all(ref.expired() for ref in dropped)


def test_a_number_that_puts_other_memory_under_everything(trained):
    optimizer, params = trained
    expected = torch.optim.AdamW([p.detach().clone().requires_grad_() for p in params], lr=0.1)
    theirs = expected.param_groups[0]["params"]
    expected.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    old = [p.data for p in params]
    before = [p.clone() for p in old]

    def act():
        for p, q in zip(params, theirs):
            p.data, p.grad = q.detach().clone(), torch.ones(300)
            q.grad = torch.ones(300)

    optimizer.param_groups[0]["lr"] = Number(act)
    optimizer.step()
    expected.step()
    for p, q in zip(params, theirs):
        torch.testing.assert_close(p, q)
    assert all(map(torch.equal, old, before))


def test_a_number_that_loads_a_checkpoint(trained):
    optimizer, params = trained
    saved = optimizer.state_dict()
    saved["param_groups"] = [{**saved["param_groups"][0], "lr": 0.1}]
    optimizer.param_groups[0]["lr"] = Number(lambda: optimizer.load_state_dict(saved))
    optimizer.step()
    assert optimizer.state[params[0]]["step"] == 2
