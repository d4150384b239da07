"""altgrad.optim.DAdaptAdam beside the step of dadaptation 3.2, written anew in float64."""

import math

import pytest
import torch

import altgrad
from published import finds_its_rate

SHAPES = (5, 7), (40, 33), (9,)


class Reference:
    def __init__(self, params, lr=1.0, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decouple=False, use_bias_correction=False,
                 d0=1e-6, growth_rate=math.inf):
        self.h, self.t, self.num, self.d = locals(), 0, 0.0, d0
        self.of = [dict(p=p.detach().double().clone(), m=0.0, v=torch.zeros_like(p).double(), s=0.0) for p in params]

    def step(self, grads):
        h, (b1, b2) = self.h, self.h["betas"]
        root, self.t, found, total = math.sqrt(b2), self.t + 1, 0.0, 0.0
        dlr = self.d * h["lr"] * (math.sqrt(1 - b2 ** self.t) / (1 - b1 ** self.t) if h["use_bias_correction"] else 1.0)
        for at, g in zip(self.of, grads):
            g = g.double() + (0.0 if h["decouple"] else h["weight_decay"] * at["p"])
            found += float((dlr * g * at["s"] / (at["v"].sqrt() + h["eps"])).sum())
            at["m"], at["v"] = b1 * at["m"] + dlr * (1 - b1) * g, b2 * at["v"] + (1 - b2) * g * g
            at["s"] = root * at["s"] + dlr * (1 - root) * g
            total += float(at["s"].abs().sum())
        if total:
            self.num = root * self.num + (1 - root) * found
            self.d = max(self.d, min(self.num / ((1 - root) * total), self.d * h["growth_rate"]))
        for at in self.of:
            at["p"] = at["p"] * (1 - h["weight_decay"] * dlr * h["decouple"]) - at["m"] / (at["v"].sqrt() + h["eps"])


@pytest.mark.parametrize("words", [
    {}, dict(weight_decay=0.1), dict(weight_decay=0.1, decouple=True, use_bias_correction=True, lr=0.5),
    dict(d0=1e-4, growth_rate=1.5, betas=(0.8, 0.99))])
def test_it_is_the_authors(words):
    d = finds_its_rate(altgrad.optim.DAdaptAdam, Reference, SHAPES, words)
    assert d > 10 * words.get("d0", 1e-6)
