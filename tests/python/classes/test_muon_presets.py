"""A profile of Muon is the defaults of its source's class: five steps are those of the source's formula in float64.

The formulas are written from the sources; their commits are in runtime/core/Presets.cpp. Products are in float32 here.
"""
import copy
import pickle

import altgrad
from altgrad.optim import NewtonSchulz
import pytest
import torch

JORDAN = [(3.4445, -4.775, 2.0315)] * 5
LEROUX = [(4.0848, -6.8946, 2.927), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
          (2.8366, -3.0525, 1.2012)]
POLAR = [(8.156554524902461, -22.48329292557795, 15.878769915207462),
         (4.042929935166739, -2.808917465908714, 0.5000178451051316),
         (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
         (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
         (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)]


def nesterov_of_average(buf, g):
    buf += 0.05 * (g - buf)
    return g + 0.95 * (buf - g)


def average(buf, g):
    buf += 0.05 * (g - buf)
    return buf


def nesterov_of_sum(buf, g):
    buf.mul_(0.95).add_(g)
    return g + 0.95 * buf


def total(buf, g):
    return buf.mul_(0.95).add_(g)


# lr, weight decay, momentum, steps of the iteration, length, scale of (rows, columns), lr, decay and eps of AdamW
SOURCES = {
    "torch": (1e-3, 0.1, nesterov_of_average, JORDAN, lambda n: n.clamp(min=1e-7), lambda r, c: max(1, r / c) ** 0.5,
              (1e-3, 0.1, 1e-7)),
    "kj": (0.02, 0, nesterov_of_average, JORDAN, lambda n: n + 1e-7, lambda r, c: max(1, r / c) ** 0.5, (3e-4, 0, 1e-10)),
    "dion": (0.01, 0.01, total, POLAR, lambda n: 1.02 * n + 1e-8, lambda r, c: (r / c) ** 0.5, (0.01, 0.01, 1e-8)),
    "moonlight": (1e-3, 0.1, nesterov_of_sum, JORDAN, lambda n: n + 1e-7, lambda r, c: 0.2 * max(r, c) ** 0.5,
                  (1e-3, 0.1, 1e-8)),
    "emerging": (3e-4, 0.01, average, LEROUX, lambda n: n.clamp(min=1e-15), lambda r, c: max(r, c) ** 0.5,
                 (3e-4, 0.01, 1e-8)),
    "vibetensor": (0.02, 0.01, nesterov_of_sum, JORDAN, lambda n: n + 1e-7, lambda r, c: max(1, r / c) ** 0.5,
                   (0.02, 0.01, 1e-7)),
}
# What a source makes of three dimensions: one matrix, or a stack. Others take matrices alone.
DEEP = {"kj": (3, 8, 16), "dion": (3, 8, 16), "vibetensor": (3, 128)}


def newton_schulz(x, rows, length):
    x = x / length(x.norm(dim=(-2, -1), keepdim=True))
    x = x.mT if (tall := x.shape[-2] > x.shape[-1]) else x
    for a, b, c in rows:
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


def adamw(w, gradients, lr, decay, eps):
    m = v = torch.zeros_like(w)
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        w = w * (1 - lr * decay) - lr * m / (1 - 0.9**t) / ((v / (1 - 0.95**t)).sqrt() + eps)
    return w


def muon(name, w, gradients):
    lr, decay, momentum, rows, length, scale, _ = SOURCES[name]
    buf = torch.zeros_like(w)
    for g in gradients:
        u = newton_schulz(momentum(buf, g.clone()), rows, length)
        w = w * (1 - lr * decay) - lr * scale(*w.shape[-2:]) * u
    return w


def draws(shape, count=5):
    generator = torch.Generator().manual_seed(shape[0])
    return [torch.randn(shape, generator=generator) for _ in range(1 + count)]


def moved(params, groups, name, **given):
    """The parameters after five steps, of which the first drawn are where they began."""
    optimizer = altgrad.optim.Muon(groups, preset=name, orthogonalize=NewtonSchulz(dtype=torch.float32), **given)
    for step in range(5):
        for param in params:
            param.grad = draws(param.shape)[1 + step]
        optimizer.step()
    return [param.detach().double() for param in params]


def assert_near(ours, wanted, began):
    """Within a thousandth of the way."""
    assert (ours - wanted).norm() < 1e-3 * (wanted - began).norm()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("shape", [(24, 40), (40, 24), (3, 8, 16)], ids=str)
def test_five_steps_are_those_of_the_source(name, shape):
    if len(shape) == 3 and name not in DEEP:
        return
    began, *gradients = [one.double() for one in draws(shape)]
    param = torch.nn.Parameter(began.float())
    lies = DEEP[name] if len(shape) == 3 else shape
    wanted = muon(name, began.reshape(lies), [g.reshape(lies) for g in gradients]).reshape(shape)
    assert_near(*moved([param], [param], name), wanted, began)


@pytest.mark.parametrize("name", SOURCES)
def test_adamw_beside_it_is_that_of_the_source(name):
    began, *gradients = [one.double() for one in draws((30,))]
    param = torch.nn.Parameter(began.float())
    for other in ([{"params": [param], "use_muon": False}], [{"params": [param], "use_muon": lambda p: p.dim() > 1}]):
        param.data.copy_(began)
        assert_near(*moved([param], other, name), adamw(began, gradients, *SOURCES[name][-1]), began)


def test_what_is_given_is_given_to_both():
    params = lambda: [{"params": [torch.nn.Parameter(torch.zeros(2, 3))]},
                      {"params": [torch.nn.Parameter(torch.zeros(3))], "use_muon": False}]
    for args, given in (((0.3,), {}), ((), {"lr": 0.3})):
        one, two = altgrad.optim.Muon(params(), *args, preset="kj", **given).param_groups
        assert (one["lr"], two["lr"], two["eps"]) == (0.3, 0.3, 1e-10)
    one = altgrad.optim.Muon(params()[:1], preset="kj")
    for copied in (one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        copied.add_param_group(params()[1])
        assert [group["lr"] for group in copied.param_groups] == [0.02, 3e-4]
