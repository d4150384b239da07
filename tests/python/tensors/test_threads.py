"""One thread or two, torch's pool or the runtime's: the same bytes."""

import pytest
import torch
import twins

import altgrad
from altgrad._binding import table

SHAPES = [(300, 257), (4096,), (5,), (8193,)]


def trained(name, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    params, = twins.make(SHAPES, count=1)
    optimizer = getattr(altgrad.optim, name)(params, lr=0.1, max_grad_norm=0.5)
    for _ in range(3):
        twins.give_grads(params)
        optimizer.step()
    return [*params, optimizer.grad_norm,
            *(v for p in params for v in optimizer.state[p].values())]


@pytest.mark.parametrize("name", ["AdamW", "LAMB"])
def test_threads_do_not_change_the_bytes(name):
    assert all(map(torch.equal, trained(name, 1), trained(name, 2)))


def test_own_threads_do_not_change_the_bytes(monkeypatch):
    expected = trained("AdamW", 2)
    monkeypatch.setattr(table, "torch_parallel_for", lambda: None)
    assert all(map(torch.equal, expected, trained("AdamW", 2)))


def test_torch_pool_is_found():
    assert table.torch_parallel_for()
