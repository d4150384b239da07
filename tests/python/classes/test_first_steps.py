"""Whether a state has begun outlives files and copies: a first step that a scaler skips is still to come."""

import copy
import pickle

import pytest
import torch
import twins
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

import altgrad

# Rules whose first step is another than the later ones.
RULES = [("SGD", dict(lr=0.1, momentum=0.9, dampening=0.5)),
         ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.5, maximize=True)),
         ("ADOPT", dict(lr=0.1)), ("AdamW", dict(lr=0.1)), ("RMSprop", dict(centered=True, momentum=0.9))]


def through_state_dict(optimizer):
    other = type(optimizer)(optimizer.param_groups[0]["params"], storage=optimizer.param_groups[0].get("storage"))
    other.load_state_dict(twins.through_a_file(optimizer.state_dict()))
    return other


def refusing_a_file(optimizer):
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    return optimizer


WAYS = {"file": through_state_dict, "copy": copy.deepcopy, "pickle": lambda o: pickle.loads(pickle.dumps(o)),
        "refused": refusing_a_file}


def skip(optimizer):
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(torch.zeros(()))
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("storage", [None, "master=f32", "states=bnb8:256"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name, kwargs", RULES)
def test_a_skipped_first_step(name, kwargs, way, storage):
    a, b = twins.make([(64, 65), (3,)], dtype=torch.bfloat16 if storage == "master=f32" else torch.float32)
    optimizers = [getattr(altgrad.optim, name)(params, storage=storage, **kwargs) for params in (a, b)]
    for optimizer, params in zip(optimizers, (a, b)):
        for param in params:
            param.grad = torch.full_like(param, torch.inf)
        skip(optimizer)
    optimizers[0] = WAYS[way](optimizers[0])
    a = optimizers[0].param_groups[0]["params"]
    twins.step(optimizers, (a, b), 3)
    for p, q in zip(a, b):
        assert torch.equal(p, q)


def test_sgd_is_torchs_then():
    a, b = twins.make([(4, 5)])
    ours, theirs = (of.SGD(p, lr=0.1, momentum=0.9, dampening=0.5) for of, p in ((altgrad.optim, a), (torch.optim, b)))
    a[0].grad = torch.full_like(a[0], torch.inf)
    skip(ours)
    assert ours.state_dict()["state"] == {0: {}} and copy.deepcopy(ours).state_dict()["state"] == {0: {}}
    twins.step([ours, theirs], (a, b), 2)
    torch.testing.assert_close(a[0], b[0])


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("name", ["ADOPT", "AdamW", "LAMB"])
def test_states_that_are_asked_for_before_any_step(name, back):
    """torch.distributed.checkpoint makes them by a step with gradients of 0."""
    model = torch.nn.Linear(4, 6)
    other = copy.deepcopy(model)
    optimizers = [getattr(altgrad.optim, name)(of.parameters(), lr=0.1) for of in (model, other)]
    states = get_optimizer_state_dict(model, optimizers[0])
    assert states["state"]["weight"]["step"].item() == 0.0
    if back:
        optimizers[0] = getattr(altgrad.optim, name)(model.parameters(), lr=0.1)
        set_optimizer_state_dict(model, optimizers[0], states)
    twins.step(optimizers, [list(of.parameters()) for of in (model, other)], 3)
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.equal(p, q)
