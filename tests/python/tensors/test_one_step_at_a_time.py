"""Threads that step one optimizer take turns; a step inside of a step is refused."""

import threading

import pytest
import torch
import twins

import altgrad


def test_threads_take_turns(monkeypatch):
    params, = twins.make([(64, 64)], count=1)
    optimizer = altgrad.optim.SGD(params, lr=1.0, max_grad_norm=1e9)
    params[0].grad, before = torch.ones(64, 64).t(), params[0].detach().clone()
    optimizer.step()
    inside, run = [], optimizer._built.tables[0].run

    def watched(*given):
        inside.append(1)
        assert len(inside) == 1
        result = run(*given)
        inside.pop()
        return result

    monkeypatch.setattr(optimizer._built.tables[0], "run", watched)
    threads = [threading.Thread(target=lambda: [optimizer.step() for _ in range(200)])
               for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(params[0].detach(), before - 601)


def test_a_step_inside_of_a_step(monkeypatch):
    params, = twins.make([(3,)], count=1)
    wide = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    twins.give_grads(params)
    wide.grad = torch.ones_like(wide)
    optimizer = altgrad.optim.AdamW([*params, wide], max_grad_norm=1.0)
    with pytest.warns(UserWarning, match="float64"):
        optimizer.step()
    optimizer.step()
    monkeypatch.setattr(optimizer._fallback_part, "step", lambda *_: optimizer.step())
    with pytest.raises(RuntimeError, match=r"step\(\) was called while a step of this optimizer"):
        optimizer.step()
    monkeypatch.undo()
    optimizer.step()
