"""altgrad.optim.Prodigy beside the step of prodigyopt 1.1, written anew in float64."""

import copy
import math

import pytest
import torch

import altgrad
from published import finds_its_rate

SHAPES = (5, 7), (40, 33), (9,)


class Reference:
    def __init__(self, params, lr=1.0, betas=(0.9, 0.999), beta3=None, eps=1e-8, weight_decay=0.0, decouple=True,
                 use_bias_correction=False, safeguard_warmup=False, d0=1e-6, d_coef=1.0, growth_rate=math.inf):
        self.h, self.b3, self.k, self.num = locals(), beta3 if beta3 else math.sqrt(betas[1]), 0, 0.0
        self.d = self.top = d0
        self.of = [dict(p=p.detach().double().clone(), p0=p.detach().double().clone(), m=0.0, v=0.0, s=0.0) for p in params]

    def step(self, grads):
        h, d, (b1, b2) = self.h, self.d, self.h["betas"]
        bias = (1 - b2 ** (self.k + 1)) ** 0.5 / (1 - b1 ** (self.k + 1)) if h["use_bias_correction"] else 1.0
        dlr, total = d * h["lr"] * bias, 0.0
        self.num *= self.b3
        for at, g in zip(self.of, grads):
            g = g.double() + (0.0 if h["decouple"] else h["weight_decay"] * at["p"])
            self.num += d / h["d0"] * dlr * (g * (at["p0"] - at["p"])).sum().item()
            at["m"], at["v"] = b1 * at["m"] + d * (1 - b1) * g, b2 * at["v"] + d * d * (1 - b2) * g * g
            at["s"] = self.b3 * at["s"] + d / h["d0"] * (d if h["safeguard_warmup"] else dlr) * g
            total += at["s"].abs().sum().item()
        self.k += 1
        if total:
            hat = h["d_coef"] * self.num / total
            self.top = max(self.top, hat)
            self.d = min(self.top, (max(d, hat) if d == h["d0"] else d) * h["growth_rate"])
        for at in self.of:
            at["p"] = at["p"] * (1 - h["weight_decay"] * dlr * h["decouple"])
            at["p"] = at["p"] - dlr * at["m"] / (at["v"].sqrt() + self.d * h["eps"])


@pytest.mark.parametrize("words", [
    {}, dict(weight_decay=0.1), dict(weight_decay=0.1, decouple=False), dict(use_bias_correction=True, lr=0.5),
    dict(safeguard_warmup=True, beta3=0.9), dict(d0=1e-4, d_coef=0.5, growth_rate=1.02, betas=(0.8, 0.99))])
def test_it_is_the_authors(words):
    finds_its_rate(altgrad.optim.Prodigy, Reference, SHAPES, words)


def test_files_schedulers_and_narrow_states():
    def run(steps, optimizer, params, first=0):
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.9 ** (t + first))
        for step in range(first, first + steps):
            draws = torch.Generator().manual_seed(step)
            for param in params:
                param.grad = param.detach() - torch.randn(param.shape, generator=draws)
            optimizer.step(), schedule.step()

    whole, half, rest = ([torch.nn.Parameter(torch.ones(shape)) for shape in SHAPES] for _ in range(3))
    words = dict(storage="exp_avg=bf16 exp_avg_sq=bf16,stochastic", seed=1, max_grad_norm=1.0)
    one, first, second = (altgrad.optim.Prodigy(params, **words) for params in (whole, half, rest))
    run(8, one, whole), run(4, first, half)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    torch._foreach_copy_([p.data for p in rest], [p.data for p in half])
    for group in second.param_groups:
        group.pop("initial_lr", None), group.update(lr=1.0)
    run(4, second, rest, first=4)
    assert all(map(torch.equal, whole, rest)) and one.param_groups[0]["d"] == second.param_groups[0]["d"]


def test_groups_share_what_d_is_found_from():
    params = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = altgrad.optim.Prodigy([dict(params=params[:1], weight_decay=0.1), dict(params=params[1:], betas=(0.9, 0.5))])
    for param in params:
        param.grad = torch.ones(3)
    with pytest.raises(altgrad.Error, match="'beta2' is one number for all groups"):
        optimizer.step()
