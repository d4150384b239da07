"""Rules in Python that keep numbers of a tensor or of the step."""

import math

import pytest
import torch

import altgrad.language as ag


@ag.rule
def prodigy(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, s: ag.State, p0: ag.State, d: ag.Global(first=1e-6),
            num: ag.Global, t: ag.Step, *, lr=1.0, betas=(0.9, 0.999), eps=1e-8):
    """Prodigy (Mishchenko and Defazio, 2023) without decay and bias correction."""
    p0, b3, dlr = ag.where(t == 1, p, p0), ag.sqrt(betas[1]), d * lr
    num = b3 * num + ag.total((d / 1e-6) * dlr * g * (p0 - p))
    m = betas[0] * m + d * (1 - betas[0]) * g
    v = betas[1] * v + d * d * (1 - betas[1]) * g * g
    s = b3 * s + (d / 1e-6) * dlr * g
    d1 = ag.maximum(d, num / ag.total(abs(s)))
    return p - dlr * m / (ag.sqrt(v) + d1 * eps), dict(m=m, v=v, s=s, p0=p0, d=d1, num=num)


def test_prodigy_over_several_tensors():
    """Formula of prodigyopt 1.1, in float64; from 0 on, where p0 - p loses no digits."""
    draws = torch.Generator().manual_seed(0)
    ps = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((5, 7), (90, 101), (33,))]
    optimizer = prodigy.optimizer()(ps)
    state = [dict(p=p.detach().double(), p0=p.detach().double(), m=0.0, v=0.0, s=0.0) for p in ps]
    d, num, b3 = 1e-6, 0.0, math.sqrt(0.999)
    for _ in range(30):
        total = 0.0
        num *= b3
        for p, at in zip(ps, state):
            p.grad = torch.randn(p.shape, generator=draws) * 0.1 + p.detach()
            g = p.grad.double()
            num += d / 1e-6 * d * (g * (at["p0"] - at["p"])).sum().item()
            at.update(m=0.9 * at["m"] + d * 0.1 * g, v=0.999 * at["v"] + d * d * 0.001 * g * g, s=b3 * at["s"] + d / 1e-6 * d * g)
            total += at["s"].abs().sum().item()
        before, d = d, max(d, num / total)
        for at in state:
            at["p"] = at["p"] - before * at["m"] / (at["v"].sqrt() + d * 1e-8)
        optimizer.step()
        assert optimizer.param_groups[0]["d"].item() == pytest.approx(d, rel=1e-4)
    for p, at in zip(ps, state):
        assert (p.detach() - at["p"]).abs().max() <= 1e-4 * max(1e-3, (at["p"] - at["p0"]).abs().max())


def test_a_hyper_parameter_of_the_step_is_found_by_its_use():
    rows = [line.strip(" ,") for line in prodigy.text.splitlines() if line.startswith("    hyper")]
    assert [row.split(" = ")[0] for row in rows] == ["hyper %lr: f64", "hyper %beta1: f64", "hyper %beta2: f64 per step", "hyper %eps: f64"]


def test_a_number_of_each_tensor():
    @ag.rule
    def normed(p: ag.Param, g: ag.Grad, top: ag.Scalar(first=1.0), *, lr=0.5):
        top = ag.maximum(top, g.norm())
        return p - lr * g / top, dict(top=top)

    def reference(p, g, top, *, lr):
        top = max(top, (g * g).sum() ** 0.5)
        return p - lr * g / top, dict(top=top)

    assert max(normed.check(reference).values()) < 1e-5


@pytest.mark.parametrize("new, words", [
    (lambda g, k, t: k + t, "a number of the step and differs between tensors: write ag.total"),
    (lambda g, k, t: g.sum(), "a number of the tensor and differs between tensors: write ag.total"),
    (lambda g, k, t: g, "an element and differs between tensors: write ag.total")])
def test_what_differs_between_tensors_is_no_number_of_all(new, words):
    @ag.rule
    def wrong(p: ag.Param, g: ag.Grad, k: ag.Global, t: ag.Step, *, lr=0.5):
        return p - lr * g, dict(k=new(g, k, t))

    with pytest.raises(ag.RuleError, match=words):
        wrong.text


def test_a_state_begins_as_the_parameter():
    @ag.rule
    def back(p: ag.Param, g: ag.Grad, z: ag.State(first="p"), t: ag.Step, *, lr=0.1):
        return p - lr * (p - z) - lr * g, dict(z=z)

    param = torch.nn.Parameter(torch.randn(5))
    first, optimizer = param.detach().clone(), back.optimizer()([param])
    for _ in range(3):
        param.grad = torch.ones(5)
        optimizer.step()
    assert torch.equal(optimizer.state[param]["z"], first)
