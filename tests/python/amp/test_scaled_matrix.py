"""Every stock rule in every format under a GradScaler of ours equals its own step on gradients that were
unscaled, checked and kept back by hand: the same bits of parameters and states, the same scales."""

import pytest
import torch

import altgrad

# A class and what its two groups say.
RULES = [("AdamW", {}, dict(lr=0.02, weight_decay=0.3)),
         ("Adam", dict(amsgrad=True), dict(maximize=True, lr=0.02)),
         ("SGD", {}, dict(momentum=0.9)),
         ("SGD", dict(momentum=0.9, nesterov=True), dict(weight_decay=0.1, maximize=True)),
         ("Adagrad", {}, dict(lr_decay=0.1, weight_decay=0.1)),
         ("RMSprop", dict(centered=True), dict(momentum=0.5)),
         ("Lion", {}, dict(weight_decay=0.1, lr=0.02)), ("LAMB", {}, dict(lr=0.02)),
         ("ADOPT", {}, dict(lr=0.02)), ("AdEMAMix", {}, dict(lr=0.02))]
FORMATS = {"f32": (torch.float32,) * 2, "bf16": (torch.bfloat16,) * 2, "f16": (torch.float16,) * 2,
           "f32 gradients": (torch.bfloat16, torch.float32), "master": (torch.bfloat16,) * 2}
# Each rule with a clip and without, and so each format.
ALL = [(rule, form, (None, 0.5)[(i + j) % 2]) for i, rule in enumerate(RULES) for j, form in enumerate(FORMATS)]
SHAPES = (), (7,), (5, 3), (131,)
BAD = {(2, 0): "nan", (2, 1): "inf", (4, 1): "-inf", (7, 0): "inf"}  # (step, optimizer)


def make(rule, form, bound, values):
    """Two optimizers of two groups over parameters of these values."""
    name, first, second = rule
    kind = getattr(altgrad.optim, name)
    if form == "master":
        options = {"Adam": ["amsgrad"], "SGD": ["momentum_on"]}.get(name, [])
        kind, first, second = altgrad.optim.FromRule(name.lower(), "master=f32", options), {}, dict(lr=0.02)
    params = [torch.nn.Parameter(v.clone()) for v in values]
    for param in params:
        param.grad_dtype = FORMATS[form][1]
    own = [dict(params=params[:2], **first), dict(params=params[2:4], **second)]
    return params, [kind(own, lr=0.01, max_grad_norm=bound),
                    kind(params[4:], max_grad_norm=bound, **{"lr": 0.01, **second})]


def gradients(step, form):
    """A step's gradients, in two shares; some parameters have none."""
    torch.manual_seed(step)
    for place, shape in enumerate(SHAPES + SHAPES):
        shares = [torch.randn(shape).to(FORMATS[form][1]) for _ in range(2)]
        yield None if (step + place) % 3 == 0 and shape else shares


def give(params, shares, scale):
    """Accumulates the shares of each gradient times a power of two."""
    for param, of in zip(params, shares):
        param.grad = None if of is None else of[0] * scale + of[1] * scale


def everything(params, optimizers):
    states = [optimizers[place // 4].state[p] for place, p in enumerate(params)]
    return [p.detach() for p in params] + [v for held in states for _, v in sorted(held.items())]


@pytest.mark.parametrize("rule, form, bound", ALL)
def test_a_scaled_step_is_the_step_of_what_was_unscaled_by_hand(rule, form, bound):
    torch.manual_seed(9)
    values = [torch.randn(shape).to(FORMATS[form][0]) for shape in SHAPES + SHAPES]
    params, optimizers = make(rule, form, bound, values)
    plain, others = make(rule, form, bound, values)
    scaler = altgrad.amp.GradScaler("cpu", 64.0, growth_interval=2)
    scaler.scale(torch.ones(1))
    scale, tracker = 64.0, 0
    for step in range(9):
        shares = list(gradients(step, form))
        give(params, shares, scale)
        give(plain, shares, 1.0)
        for index, (scaled, by_hand) in enumerate(zip(optimizers, others)):
            mine, its = [[p for p in of[4 * index:4 * index + 4] if p.grad is not None] for of in (params, plain)]
            bad = BAD.get((step, index))
            if bad:
                mine[-1].grad.view(-1)[-1] = float(bad)
            scaler.step(scaled)
            if not bad:
                by_hand.step()
                norm = torch.stack([p.grad.double().norm() for p in its]).norm()
                assert not bound or abs(scaled.grad_norm / norm - 1.0) < 1e-5
        scaler.update()
        found = (step, 0) in BAD or (step, 1) in BAD
        tracker = 0 if found else tracker + 1
        scale *= 0.5 if found else 2.0 if tracker == 2 else 1.0
        tracker %= 2
        assert (scaler.get_scale(), scaler._get_growth_tracker()) == (scale, tracker)
    pairs = zip(everything(params, optimizers), everything(plain, others), strict=True)
    assert all(a.dtype == b.dtype and a.equal(b) for a, b in pairs)
    assert [o.skipped_steps.item() for o in optimizers] == [2, 2]
