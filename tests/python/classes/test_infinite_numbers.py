"""Infinities and NaNs in parameters and gradients, with every hyper-parameter that may be 0 being it."""

import pytest
import torch

import altgrad

NUMBERS = torch.tensor([float("inf"), -float("inf"), float("nan"), 1.0, -0.0, 0.0, 2.0 ** 100, -2.5])
ADAM = dict(lr=0.1, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)
# What none of which is 0; then each of them is.
CASES = [("Adam", ADAM), ("Adam", dict(ADAM, amsgrad=True)), ("Adam", dict(ADAM, decoupled_weight_decay=True)),
         ("AdamW", ADAM), ("AdamW", dict(ADAM, amsgrad=True, maximize=True)),
         ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1)),
         ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)),
         ("Adagrad", dict(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-6)),
         ("RMSprop", dict(lr=0.1, alpha=0.9, eps=1e-6, weight_decay=0.1, momentum=0.9)),
         ("RMSprop", dict(lr=0.1, alpha=0.9, eps=1e-6, weight_decay=0.1, centered=True))]


def zeroed(given):
    """The arguments, and with each number as 0."""
    yield given
    for key, value in given.items():
        if key == "betas":
            yield from [{**given, key: (0.0, value[1])}, {**given, key: (value[0], 0.0)}]
        elif isinstance(value, float) and not (key == "momentum" and given.get("nesterov")):
            yield {**given, key: 0.0}


def pairs():
    """A parameter with each number, and its gradient with each."""
    w, g = (part.flatten().clone() for part in torch.meshgrid(NUMBERS, NUMBERS, indexing="ij"))
    param = torch.nn.Parameter(w)
    param.grad = g
    return param


@pytest.mark.parametrize("name, given", CASES)
def test_torchs_numbers_with_every_hyper_parameter_that_is_zero(name, given):
    for kwargs in zeroed(given):
        p, q = pairs(), pairs()
        ours, theirs = getattr(altgrad.optim, name)([p], **kwargs), getattr(torch.optim, name)([q], **kwargs, foreach=False)
        for step in range(3):
            ours.step(), theirs.step()
            said = f"step {step} of {name}({kwargs})"
            torch.testing.assert_close(p, q, equal_nan=True, msg=lambda text: f"{said}: {text}")
            for key, value in theirs.state[q].items():
                torch.testing.assert_close(ours.state[p][key], value, equal_nan=True, msg=lambda text: f"{key}, {said}: {text}")
            p.grad, q.grad = p.grad.roll(3), q.grad.roll(3)


@pytest.mark.parametrize("name, given", [
    ("Adam", {}), ("AdamW", {}), ("SGD", {}), ("SGD", dict(momentum=0.9)), ("Adagrad", {}), ("RMSprop", {}),
    ("RMSprop", dict(momentum=0.9, centered=True)), ("Lion", {}), ("LAMB", {}), ("LAMB", dict(adam_w_mode=False)),
    ("ADOPT", {}), ("ADOPT", dict(decouple=True)), ("AdEMAMix", {}), ("ManifoldAdamW", {}),
    ("Muon", dict(use_muon=False)), ("Muon", {}), ("NorMuon", {}), ("signsgd", {})])
def test_without_decay_a_mask_of_infinities_stays_and_nothing_else_changes(name, given):
    """As of logits: its gradient is 0 or a number, and neither its states nor its neighbours see it."""
    torch.manual_seed(0)
    start, grads = torch.randn(8, 16), torch.randn(3, 8, 16)
    mask = torch.zeros(8, 16)
    mask[0, :3], mask[5, 7] = -float("inf"), float("inf")
    kind, decay = getattr(altgrad.optim, name, None), dict(weight_decay=0.0)
    if kind is None:
        kind, decay = altgrad.optim.FromRule(name), dict(decay=0.0)
    results = []
    for added in (torch.zeros(8, 16), mask):
        param = torch.nn.Parameter(start + added)
        optimizer = kind([param], **decay, **given)
        for grad in grads:
            param.grad = grad
            optimizer.step()
        results.append((param.detach(), optimizer.state[param]))
    (plain, states), (masked, others) = results
    assert torch.equal(masked, torch.where(mask == 0, plain, mask))
    for key, state in states.items():
        where = mask == 0 if state.shape == mask.shape else ...
        assert torch.equal(state[where], others[key][where]) and others[key].isfinite().all(), key
