"""Optimizers in float64 as their papers and authors have them; torch's are torch's own."""

import math

import pytest
import torch

CASES = [
    ("NAdam", {}), ("NAdam", dict(weight_decay=0.1, momentum_decay=0.01, maximize=True)),
    ("NAdam", dict(weight_decay=0.1, decoupled_weight_decay=True, betas=(0.8, 0.99))),
    ("RAdam", dict(betas=(0.9, 0.95))), ("RAdam", dict(weight_decay=0.1, lr=0.01)),
    ("RAdam", dict(weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("Adamax", {}), ("Adamax", dict(weight_decay=0.1, betas=(0.8, 0.9), maximize=True)),
    ("Adadelta", {}), ("Adadelta", dict(weight_decay=0.1, rho=0.95, lr=0.5, maximize=True)),
    ("Rprop", {}), ("Rprop", dict(etas=(0.4, 1.3), step_sizes=(1e-3, 0.02), maximize=True)),
    ("ASGD", {}), ("ASGD", dict(t0=5, weight_decay=0.1, lambd=0.1, maximize=True)),
    ("Adan", {}), ("Adan", dict(weight_decay=0.1, lr=0.01, betas=(0.9, 0.8, 0.95))),
    ("Adan", dict(weight_decay=0.1, no_prox=True, lr=0.01, maximize=True)),
    ("AdaBelief", dict(betas=(0.9, 0.95))), ("AdaBelief", dict(rectify=False, weight_decay=0.1, eps=1e-8)),
    ("AdaBelief", dict(rectify=False, amsgrad=True, weight_decouple=False, weight_decay=0.1, maximize=True, eps=1e-8)),
    ("AdaBelief", dict(degenerated_to_sgd=False, fixed_decay=True, weight_decay=0.01, eps=1e-8, betas=(0.9, 0.95))),
    ("StableAdamW", {}), ("StableAdamW", dict(clip_thresh=0.5, betas=(0.8, 0.9), lr=0.01, maximize=True)),
    ("LARS", {}), ("LARS", dict(momentum=0.9, weight_decay=0.1, trust_coeff=0.1)),
    ("LARS", dict(momentum=0.9, always_adapt=True, nesterov=True, trust_coeff=0.1, maximize=True)),
    ("LARS", dict(momentum=0.9, dampening=0.5, weight_decay=0.1, trust_clip=True, lr=0.1, trust_coeff=1.0)),
    ("MARS", {}), ("MARS", dict(amsgrad=True, weight_decay=0.1, gamma=0.1, lr=0.01, maximize=True)),
    ("MARS", dict(mars_type="mars-lion", weight_decay=0.1)), ("MARS", dict(mars_type="mars-lion", optimize_1d=True, amsgrad=True)),
    ("MARS", dict(optimize_1d=True, betas=(0.9, 0.95))), ("MARS", dict(lr_1d=0.01, betas_1d=(0.8, 0.9), weight_decay_1d=0.0)),
    ("AdamAtan2", {}), ("AdamAtan2", dict(weight_decay=0.1, a=2.0, b=0.5, cautious_factor=0.1, lr=0.01, maximize=True)),
    ("AdamMini", {}), ("AdamMini", dict(weight_decay=0.1, betas=(0.8, 0.9), maximize=True)),
    ("AdamMini", dict(split="tensor", weight_decay=0.1)), ("AdamMini", dict(split="elements", betas=(0.8, 0.9), maximize=True)),
    ("AdamWScheduleFree", {}), ("AdamWScheduleFree", dict(warmup_steps=10, r=1.0, weight_decay=0.1, betas=(0.8, 0.9))),
    ("SGDScheduleFree", dict(lr=0.1)), ("SGDScheduleFree", dict(lr=0.1, warmup_steps=10, weight_lr_power=1.0, weight_decay=0.1)),
    ("SophiaG", {}), ("SophiaG", dict(bs=2.0, rho=0.5, lr=0.01, betas=(0.9, 0.95), maximize=True)),
    ("AdaHessian", {}), ("AdaHessian", dict(hessian_power=0.5, weight_decay=0.1, maximize=True)),
]


class OfTorch:
    def __init__(self, kind, params, words):
        self.params = [torch.nn.Parameter(param) for param in params]
        self.optimizer = kind(self.params, **words)

    def step(self, grads, inputs=None):
        for param, grad in zip(self.params, grads):
            param.grad = grad
        self.optimizer.step()


class Formula:
    def __init__(self, name, params, hypers):
        self.update, self.params, self.h, self.t = globals()[f"_{name.lower()}"], params, hypers, 0
        self.states = [{"p0": param.clone()} for param in params]

    def step(self, grads, inputs=None):
        self.t += 1
        sign = -1.0 if self.h.pop("maximize", False) else 1.0
        self.h["maximize"] = sign < 0
        for place, (param, grad, state) in enumerate(zip(self.params, grads, self.states)):
            if inputs:
                state["input"] = inputs[place]
            self.params[place] = self.update(param, sign * grad, _Zeros(state), self.t, **self.h)


class _Zeros:
    """A dict in which what is missing is 0."""

    def __init__(self, held):
        self.held = held

    def average(self, key, beta, value):
        self.held[key] = beta * self.held.get(key, 0.0) + (1 - beta) * value
        return self.held[key]


def make(name, params, defaults, words):
    kind = getattr(torch.optim, name, None)
    return OfTorch(kind, params, words) if kind else Formula(name, params, {**defaults, **words})


def _adan(p, g, s, t, lr, betas, eps, weight_decay, no_prox, **_):
    d = g - s.held.get("g", g)
    m, a = s.average("m", betas[0], g), s.average("a", betas[1], d)
    v = s.average("v", betas[2], (g + betas[1] * d) ** 2)
    s.held["g"] = g
    p = p * (1 - lr * weight_decay) if no_prox else p
    denom = (v / (1 - betas[2] ** t)).sqrt() + eps
    p = p - lr * (m / (1 - betas[0] ** t) + betas[1] * a / (1 - betas[1] ** t)) / denom
    return p if no_prox else p / (1 + lr * weight_decay)


def _adabelief(p, g, s, t, lr, betas, eps, weight_decay, amsgrad, weight_decouple, fixed_decay, rectify, degenerated_to_sgd, **_):
    if weight_decouple:
        p = p * (1 - (weight_decay if fixed_decay else lr * weight_decay))
    else:
        g = g + weight_decay * p
    m = s.average("m", betas[0], g)
    v = s.held["v"] = s.average("v", betas[1], (g - m) ** 2) + eps
    correction = 1 - betas[0] ** t, 1 - betas[1] ** t
    if not rectify:
        if amsgrad:
            v = s.held["top"] = torch.maximum(v, s.held.get("top", torch.zeros_like(v)))
        return p - lr / correction[0] * m / ((v / correction[1]).sqrt() + eps)
    most = 2 / (1 - betas[1]) - 1
    length = most - 2 * t * betas[1] ** t / correction[1]
    if length >= 5:
        ratio = (length - 4) / (most - 4) * (length - 2) / length * most / (most - 2)
        return p - lr * math.sqrt(correction[1] * ratio) / correction[0] * m / (v.sqrt() + eps)
    return p - lr / correction[0] * m if degenerated_to_sgd else p


def _stableadamw(p, g, s, t, lr, betas, eps, weight_decay, clip_thresh, **_):
    hats = [beta * (1 - beta ** (t - 1)) / (1 - beta ** t) for beta in betas]
    m, v = s.average("m", hats[0], g), s.average("v", hats[1], g * g)
    rate = lr / max(1.0, float((g * g / v.clamp_min(eps ** 2)).mean().sqrt()) / clip_thresh)
    return p * (1 - rate * weight_decay) - rate * m / (v.sqrt() + eps)


def _lars(p, g, s, t, lr, momentum, dampening, weight_decay, nesterov, trust_coeff, eps, trust_clip, always_adapt, **_):
    if weight_decay or always_adapt:
        wide, far = float(p.norm()), float(g.norm())
        ratio = trust_coeff * wide / (far + wide * weight_decay + eps) if wide and far else 1.0
        g = (g + weight_decay * p) * (min(ratio / lr, 1.0) if trust_clip else ratio)
    if momentum:
        buf = s.held["buf"] = momentum * s.held["buf"] + (1 - dampening) * g if "buf" in s.held else g
        g = g + momentum * buf if nesterov else buf
    return p - lr * g


def newton_schulz(g, steps=5, eps=1e-7):
    """The authors' zeropower_via_newtonschulz5; in float64, so that ours is within its bfloat16."""
    x = g / (g.norm() + eps)
    x = x.T if g.shape[0] > g.shape[1] else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def _mars(p, g, s, t, lr, betas, eps, weight_decay, amsgrad, gamma, mars_type, optimize_1d, lr_1d, betas_1d, weight_decay_1d, **_):
    corrects = optimize_1d or p.dim() == 2
    if corrects:
        c = g + gamma * betas[0] / (1 - betas[0]) * (g - s.held.get("last", 0.0))
        c = c / max(1.0, float(c.norm()))
    else:
        c, betas, lr, weight_decay = g, betas_1d, lr_1d, weight_decay_1d
    s.held["last"] = g
    m, v = s.average("m", betas[0], c), s.average("v", betas[1], c * c)
    if corrects and mars_type == "mars-lion":
        return p - lr * (weight_decay * p + m.sign())
    if amsgrad:
        v = s.held["top"] = torch.maximum(v, s.held.get("top", torch.zeros_like(v)))
    return p - lr * (weight_decay * p + m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps))


def _adamatan2(p, g, s, t, lr, betas, weight_decay, cautious_factor, a, b, **_):
    p = p * (1 - lr * weight_decay)
    m, v = s.average("m", betas[0], g) / (1 - betas[0] ** t), s.average("v", betas[1], g * g) / (1 - betas[1] ** t)
    u = torch.atan2(m, b * v.sqrt())
    if cautious_factor < 1:
        scale = torch.where(u * g > 0, 1.0, cautious_factor).double()
        u = u * (scale / scale.mean().clamp_min(1e-5))
    return p - lr * a * u


def _adammini(p, g, s, t, lr, betas, eps, weight_decay, split, **_):
    p = p * (1 - lr * weight_decay)
    count = {"rows": g.shape[0] if g.dim() > 1 else 1, "tensor": 1, "elements": max(1, g.numel())}[split]
    rows = g.reshape(count, -1)
    m, v = s.average("m", betas[0], g), s.average("v", betas[1], (rows * rows).mean(1))
    v = v.reshape(-1, 1).expand_as(rows).reshape(g.shape)
    return p - lr / (1 - betas[0] ** t) * m / ((v / (1 - betas[1] ** t)).sqrt() + eps)


def _free(y, n, s, t, lr, beta, warmup_steps, r, weight_lr_power):
    """By x and z, as the paper has it, in the place of the authors' y and z."""
    rate = lr * min(1.0, t / warmup_steps) if warmup_steps else lr
    top = s.held["top"] = max(rate, s.held.get("top", -1.0))
    weight = t ** r * top ** weight_lr_power
    s.held["sum"] = s.held.get("sum", 0.0) + weight
    z, x, c = s.held.get("z", s.held["p0"]), s.held.get("x", s.held["p0"]), weight / s.held["sum"]
    s.held["z"] = z = z - rate * n
    s.held["x"] = x = (1 - c) * x + c * z
    return beta * x + (1 - beta) * z


def _adamwschedulefree(y, g, s, t, lr, betas, eps, weight_decay, warmup_steps, r, weight_lr_power, **_):
    v = s.average("v", betas[1], g * g)
    n = g / ((v / (1 - betas[1] ** t)).sqrt() + eps) + weight_decay * y
    return _free(y, n, s, t, lr, betas[0], warmup_steps, r, weight_lr_power)


def _sgdschedulefree(y, g, s, t, lr, momentum, weight_decay, warmup_steps, r, weight_lr_power, **_):
    return _free(y, g + weight_decay * y, s, t, lr, momentum, warmup_steps, r, weight_lr_power)


def _sophiag(p, g, s, t, lr, betas, rho, weight_decay, bs, **_):
    if t % 10 == 1:  # as the test calls update_hessian
        s.average("h", betas[1], g * g)
    p = p * (1 - lr * weight_decay)
    m = s.average("m", betas[0], g)
    return p - lr * m.sign() * (m.abs() / (rho * bs * s.held["h"] + 1e-15)).clamp_max(1.0)


def _adahessian(p, g, s, t, lr, betas, eps, weight_decay, hessian_power, **_):
    p = p * (1 - lr * weight_decay)
    m, v = s.average("m", betas[0], g), s.average("v", betas[1], s.held["input"] ** 2)
    return p - lr / (1 - betas[0] ** t) * m / ((v / (1 - betas[1] ** t)) ** (hessian_power / 2) + eps)


def finds_its_rate(kind, reference, shapes, words):
    """40 steps from zeros towards 1 of a class that finds `d`, and of its reference in float64, with the same `d` and weights."""
    draws = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]  # where p0 - p loses no digits
    ours, theirs = kind(params, **words), reference(params, **words)
    for _ in range(40):
        grads = [at["p"].float() - 1 + 0.1 * torch.randn(at["p"].shape, generator=draws) for at in theirs.of]
        for param, grad in zip(params, grads):
            param.grad = grad
        ours.step(), theirs.step(grads)
        assert ours.param_groups[0]["d"].item() == pytest.approx(theirs.d, rel=1e-4)
    for param, at in zip(params, theirs.of):
        assert (param.detach() - at["p"]).abs().max() <= 2e-4 * at["p"].abs().max()
    assert ours.param_groups[0]["k"].item() == 40
    return theirs.d
