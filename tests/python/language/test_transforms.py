"""Transforms change the gradient before any rule, or the parameter after it, as one function would say it all."""

import pickle

import numpy as np
import pytest
import rules
import torch

import altgrad
import altgrad.language as ag
from altgrad.language import gallery


@ag.rule
def heavy(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=0.1, beta=0.9):
    m = beta * m + g
    return p - lr * m, dict(m=m)


def step(p, g, m, lr, beta):
    m = beta * m + g
    return p - lr * m, m


def norm(x):
    return np.sqrt((x * x).sum())


# What NumPy says of each: (the gradient that the rule gets, new states) or (the new parameter, new states).
def centralize(g, **_):
    return g - g.mean(tuple(range(1, g.ndim)), keepdims=True) if g.ndim > 1 else g, {}


def grokfast(g, t, ema, alpha, lamb, **_):
    ema = g if t == 1 else alpha * ema + (1 - alpha) * g
    return g + lamb * ema, dict(ema=ema)


def mars(g, t, last, gamma, beta, most, **_):
    c = g if t == 1 else g + gamma * beta / (1 - beta) * (g - last)
    return c / max(1.0, norm(c) / most), dict(last=g)


def cautious(p, g, w, least, **_):
    mask = (w - p) * g < 0
    return p + (w - p) * mask / max(mask.mean(), least), {}


def ema(w, t, weights, decay, **_):
    return w, dict(weights=w if t == 1 else decay * weights + (1 - decay) * w)


def lookahead(p, w, t, slow, every, alpha, **_):
    slow = p if t == 1 else slow
    slow = slow + alpha * (w - slow) if t % every == 0 else slow
    return (slow if t % every == 0 else w), dict(slow=slow)


def hyperball(p, w, **_):
    return w * (norm(p) / norm(w)), {}


BEFORE, AFTER = (centralize, grokfast, mars), (cautious, ema, lookahead, hyperball)


def reference(names):
    """A function of the rule between these transforms."""
    def whole(p, g, m, lr, beta, t=0, **given):
        def of(one, **values):
            value, new = one(t=t, **values, **{key.removeprefix(one.__name__ + "_"): value for key, value in given.items()
                                                if key.startswith(one.__name__ + "_")})
            states.update({f"{one.__name__}_{key}": state for key, state in new.items()})
            return value
        states = {}
        for one in [one for one in BEFORE if one.__name__ in names]:
            g = of(one, g=g)
        w, states["m"] = step(p, g, m, lr, beta)
        for one in [one for one in AFTER if one.__name__ in names]:
            w = of(one, p=p, g=g, w=w)
        return w, states
    return whole


@pytest.mark.parametrize("names", [*[(one.__name__,) for one in BEFORE + AFTER], ("centralize", "grokfast", "ema", "lookahead")],
                         ids="-".join)
def test_against_numpy(names):
    composed = ag.compose(heavy, *[getattr(gallery, name) for name in names])
    numbers = dict(lookahead_every=3.0) if "lookahead" in names else {}
    largest = composed.check(reference(names), steps=10, shapes=((33, 17), (5, 7), (9,), (3, 4, 5)), **numbers)
    assert set(largest) == {"p", *composed._signature.states(composed.options)} and max(largest.values()) < 3e-5


def test_a_composition_has_the_text_and_the_bits_of_one_function():
    @ag.rule
    def heavy_grokfast_ema(p: ag.Param, g: ag.Grad, m: ag.State, t: ag.Step, grokfast_ema: ag.State, ema_weights: ag.State, *, lr=0.1, beta=0.9,
                           grokfast_alpha=0.98, grokfast_lamb=2.0, ema_decay=0.999):
        g, one = gallery.grokfast(g, grokfast_ema, t, alpha=grokfast_alpha, lamb=grokfast_lamb)
        p, m = heavy(p, g, m, lr=lr, beta=beta)
        p, other = gallery.ema(p, ema_weights, t, decay=ema_decay)
        return p, dict(m, grokfast_ema=one["ema"], ema_weights=other["weights"])
    body = lambda rule: rule.text[rule.text.index(") {"):]
    composed = ag.compose(heavy, gallery.grokfast, gallery.ema)
    states = lambda text: sorted(text.rpartition("state(")[2].split(")")[0].split(", "))
    assert body(composed).rpartition("altgrad.yield")[0] == body(heavy_grokfast_ema).rpartition("altgrad.yield")[0]
    assert states(composed.text) == states(heavy_grokfast_ema.text)
    # What only watches changes no bit.
    params = [torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2)]
    optimizers = heavy.optimizer()([params[0]]), heavy.optimizer(transforms=[gallery.ema])([params[1]], ema_decay=0.5)
    for param, optimizer in zip(params, optimizers):
        torch.manual_seed(0)
        for _ in range(5):
            param.grad = torch.randn(3, 4)
            optimizer.step()
    assert torch.equal(*params) and "ema_weights" in optimizers[1].state[params[1]]


def test_options_pairs_and_classes_go_through():
    made = rules.adamw.optimizer("exp_avg=bf16 ema_weights=f32", "amsgrad", transforms=[gallery.cautious, gallery.ema])
    assert made is rules.adamw.optimizer("exp_avg=bf16 ema_weights=f32", "amsgrad", transforms=[gallery.cautious, gallery.ema])
    assert made.__name__ == "AdamwCautiousEma" and pickle.loads(pickle.dumps(made)) is made
    assert made.__doc__.startswith("Adam with decoupled weight decay, with cautious, ema.")
    param = torch.nn.Parameter(torch.ones(3, 4))
    param.grad = torch.ones(3, 4)
    optimizer = made([param], betas=(0.5, 0.9), cautious_least=0.1)
    optimizer.step()
    assert set(optimizer.state[param]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "ema_weights"}
    composed = ag.compose(rules.adamw, gallery.mars)
    again = pickle.loads(pickle.dumps(composed.choose(maximize=True)))
    assert again.text == composed.choose(maximize=True).text != composed.text and gallery.mars.__module__ == "altgrad.language.gallery"


def test_what_is_traced_from_torch_takes_transforms_too():
    made = altgrad.optim.from_torch(torch.optim.SGD, transforms=[gallery.centralize, gallery.ema], lr=0.1)
    assert pickle.loads(pickle.dumps(made)) is made
    p, q = (torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2))
    optimizers = made([p], momentum=0.9, ema_decay=0.5), torch.optim.SGD([q], lr=0.1, momentum=0.9)
    average = None
    for step in range(4):
        p.grad = torch.randn(3, 4)
        q.grad = p.grad - p.grad.mean(1, keepdim=True)
        for optimizer in optimizers:
            optimizer.param_groups[0]["weight_decay"] = 0.1 * (step > 1)
            optimizer.step()
        average = q.detach().clone() if average is None else average.lerp(q.detach(), 0.5)
    torch.testing.assert_close(p, q)
    torch.testing.assert_close(optimizers[0].state[p]["ema_weights"], average)
    assert optimizers[0].param_groups[0]["ema_decay"] == 0.5 and "ema_decay: As its transform has it." in made.__doc__


def test_what_is_no_transform():
    with pytest.raises(ag.RuleError, match="a transform takes one g: ag.Grad, which it changes before the rule, or one w: ag.New"):
        @ag.transform
        def f(p: ag.Param):
            return p
    with pytest.raises(ag.RuleError, match="argument x has no role"):
        @ag.transform
        def f(g: ag.Grad, x):
            return g
    with pytest.raises(ag.RuleError, match="w: ag.New is what a rule returns, which a function under @ag.transform takes"):
        @ag.rule
        def f(p: ag.Param, g: ag.Grad, w: ag.New):
            return w
    with pytest.raises(ag.RuleError, match="ema is there twice"):
        ag.compose(heavy, gallery.ema, gallery.ema)
    with pytest.raises(ag.RuleError, match="transforms are functions under @ag.transform"):
        ag.compose(gallery.ema, heavy)

    @ag.transform
    def lost(g: ag.Grad, seen: ag.State):
        return g, dict(other=seen)
    with pytest.raises(ag.RuleError, match="'other' is returned and is no state of the rule; there are seen") as caught:
        ag.compose(heavy, lost).text
    assert caught.value.filename == __file__
