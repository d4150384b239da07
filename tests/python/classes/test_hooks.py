"""Hooks and the profiler see every step as they see those of torch's optimizers."""

import pytest
import torch
import twins

import altgrad


@pytest.fixture
def optimizer():
    params, = twins.make([(3,)], count=1)
    twins.give_grads(params)
    return altgrad.optim.AdamW(params)


def test_the_profiler_names_the_step(optimizer):
    optimizer.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        optimizer.step()
    assert [event.count for event in seen.key_averages()
            if event.key == "Optimizer.step#AdamW.step"] == [1]


def test_a_hook_sees_the_arguments_and_may_change_them(optimizer):
    seen = []
    optimizer.register_step_pre_hook(lambda *given: (given[1][:1] + (lambda: 7,), {}))
    optimizer.register_step_post_hook(lambda *given: seen.append(given[1][1]()))
    assert optimizer.step() == 7 and seen == [7]


def test_a_hook_that_is_removed_is_not_called(optimizer):
    seen = []
    hook = optimizer.register_step_post_hook(lambda *_: seen.append("post"))
    optimizer.step()
    hook.remove()
    optimizer.step()
    assert seen == ["post"]


def test_a_hook_that_a_closure_registers_sees_this_step(optimizer):
    seen = []
    closure = lambda: optimizer.register_step_post_hook(lambda *given: seen.append(given[1:]))
    optimizer.step(closure)
    assert seen == [((optimizer, closure), {})]


def test_hooks_of_a_class_with_a_step_of_its_own_run_as_often_as_torchs():
    class Mine(altgrad.optim.SGD):
        def step(self, closure=None):
            seen.append("step")
            return super().step(closure)

    seen = []
    params, = twins.make([(3,)], count=1)
    twins.give_grads(params)
    theirs = type("Theirs", (torch.optim.SGD,), {"step": lambda self: torch.optim.SGD.step(self)})
    counts = []
    for kind in (Mine, theirs):
        optimizer, called = kind(params), []
        optimizer.register_step_pre_hook(lambda *_: called.append("pre"))
        optimizer.step()
        counts.append(len(called))
    assert seen == ["step"] and counts[0] == counts[1]
