"""A step under inference mode leaves nothing behind that a later one outside of it could not write."""

import copy

import pytest
import torch
import twins

import altgrad

CASES = {
    "SGD": (lambda ps: altgrad.optim.SGD(ps, lr=0.1), None),
    "SGD momentum": (lambda ps: altgrad.optim.SGD(ps, lr=0.1, momentum=0.9), None),
    "AdamW": (lambda ps: altgrad.optim.AdamW(ps, lr=0.1), None),
    "RMSprop": (lambda ps: altgrad.optim.RMSprop(ps, lr=0.1), None),
    "statistics": (lambda ps: altgrad.optim.AdamW(ps, lr=0.1, statistics=True, max_grad_norm="percentile:50"), None),
    "stochastic": (lambda ps: altgrad.optim.AdamW(ps, lr=0.1, storage="states=bf16,stochastic", seed=1), None),
    "master": (lambda ps: altgrad.optim.AdamW(ps, lr=0.1, storage="master=f32 copy=ocp.e4m3fn,delayed:2"), None),
    "8 bits": (lambda ps: altgrad.optim.AdamW8bit(ps, lr=0.1), None),
    "GridOptim": (lambda ps: altgrad.optim.GridOptim(ps, seed=1), None),
    "int64 count": (lambda ps: altgrad.optim.AdamW(ps, lr=0.1), lambda o, ps: [
        held.update(step=torch.tensor(1)) for held in o.state.values()]),
    "other layout": (lambda ps: altgrad.optim.AdamW(ps, lr=0.1), lambda o, ps: [
        setattr(p, "data", p.data.t().contiguous().t()) for p in ps]),
}


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_later_steps_go_on(name, loaded):
    make, touch = CASES[name]
    params, others = twins.make([(64, 65), (3, 5)])
    optimizer, other = make(params), make(others)
    if loaded or touch:
        twins.give_grads(params, others)
        optimizer.step(), other.step()
    if loaded:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        other.load_state_dict(copy.deepcopy(other.state_dict()))
    if touch:
        touch(optimizer, params), touch(other, others)
    for mode in (True, False, True, False):
        twins.give_grads(params, others)
        with torch.inference_mode(mode):
            optimizer.step()
        other.step()
    for held in optimizer.state.values():
        assert not any(value.is_inference() for value in held.values())
    assert all(map(torch.equal, params, others))
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    optimizer.step()


@pytest.mark.parametrize("name, words", [("AdamW", {}), ("SGD", dict(momentum=0.9)), ("RMSprop", dict(momentum=0.9))])
def test_what_torch_steps_goes_on(name, words):
    lists = [[torch.nn.Parameter(torch.ones(5, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
             for _ in range(2)]
    ours, theirs = (getattr(of, name)(params, lr=0.1, **words) for of, params in zip((altgrad.optim, torch.optim), lists))
    for quiet in (True, False, True, False):
        twins.give_grads(*lists)
        with torch.inference_mode(quiet):
            ours.step()
        theirs.step()
    for p, q in zip(*lists):
        torch.testing.assert_close(p, q)
