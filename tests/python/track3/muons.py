"""Entries that are Adam, Muon, or Muon beside a second moment of elements or on a sphere."""

import math

import oracle
import torch
from parts import POLAR, ball, cooldown, iterated, nesterov, polar

import altgrad.language as ag


@ag.rule
def adam(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, t: ag.Step, *, lr=1.5e-3, betas=(0.9, 0.95), eps=1e-10,
         warmup=250.0, total=5625.0, part=0.7):
    m, v = ag.lerp(m, g, 1 - betas[0]), ag.lerp(v, g * g, 1 - betas[1])
    rate = lr * ag.minimum(1.0, t / warmup) * cooldown(t, total, part)
    return p - rate / (1 - betas[0] ** t) * m / (ag.sqrt(v / (1 - betas[1] ** t)) + eps), dict(m=m, v=v)


def adam_reference(p, g, m, v, t, lr, betas, eps, warmup, total, part):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g ** 2
    rate = lr * min(1, t / warmup) * oracle.cooldown(t - 1, total, part)
    return p - rate * m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps), dict(m=m, v=v)


@ag.rule
def adamh(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, t: ag.Step, *, lr=0.018, betas=(0.9, 0.95), eps=1e-8):
    m, v = ag.lerp(m, g, 1 - betas[0]), ag.lerp(v, g * g, 1 - betas[1])
    u = m / (1 - betas[0] ** t) / (ag.sqrt(v / (1 - betas[1] ** t)) + eps)
    return ball(p, u, lr), dict(m=m, v=v)


def adamh_reference(p, g, m, v, t, lr, betas, eps):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g ** 2
    u = m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
    return oracle.ball(p, u, lr), dict(m=m, v=v)


@ag.rule(of="matrices")
def muon(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=0.02, mu=0.95, decay=0.01, nest: ag.Option = True):
    u, m = nesterov(g, m, mu)
    return ag.descend(p, polar(u if nest else m), lr * ag.scale_by_shape("original"), lr * decay), dict(m=m)


def muon_reference(p, g, m, lr, mu, decay, nest):
    u, m = oracle.nesterov(g, m, mu)
    return p * (1 - lr * decay) - lr * oracle.aspect(p) * oracle.polar(u if nest else m), dict(m=m)


@ag.rule(of="matrices")
def muonh(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=0.018, mu=0.95):
    u, m = nesterov(g, m, mu)
    return ball(p, polar(u), lr), dict(m=m)


def muonh_reference(p, g, m, lr, mu):
    u, m = oracle.nesterov(g, m, mu)
    return oracle.ball(p, oracle.polar(u), lr), dict(m=m)


@ag.rule(of="matrices")
def muon_squared(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, *, lr=0.1, mu=0.95, beta=0.95, eps=1e-10, decay=0.0125):
    (u, m), v = nesterov(g, m, mu), ag.lerp(v, g * g, 1 - beta)
    return ag.descend(p, polar(u / (ag.sqrt(v) + eps)), lr * ag.scale_by_shape("original"), lr * decay), dict(m=m, v=v)


def muon_squared_reference(p, g, m, v, lr, mu, beta, eps, decay):
    (u, m), v = oracle.nesterov(g, m, mu), beta * v + (1 - beta) * g ** 2
    return p * (1 - lr * decay) - lr * oracle.aspect(p) * oracle.polar(u / (v.sqrt() + eps)), dict(m=m, v=v)


@ag.rule(of="matrices")
def dynmuon(p: ag.Param, g: ag.Grad, m: ag.State, t: ag.Step, *, lr=0.02, mu=0.95, decay=0.025, total=3175.0, most=0.25,
            least=-0.25, middle=0.04, width=0.04):
    """Singular values to a power that falls from `most` to `least`, from two terms of its series at 1."""
    m = mu * m + g
    u = mu * m + g
    size = u.norm() + 1e-7
    power = least + (most - least) / (1 + ag.exp(((t - 1) / total - middle) / width))
    x = y = ag.matrix(u / size)
    for _ in range(12):
        y = iterated(y)
    d = 0.5 * power
    c = 0.5 * d * (d - 1)
    one, two = ag.product(x @ x.T, y), ag.product(x @ x.T, ag.product(x @ x.T, y))
    o = (1 - d + c) * y + (d - 2 * c) * one + c * two
    return ag.descend(p, o, lr * ag.scale_by_shape("original") * size ** power, lr * decay), dict(m=m)


def dynmuon_reference(p, g, m, t, lr, mu, decay, total, most, least, middle, width):
    m = mu * m + g
    u = mu * m + g
    power = least + (most - least) / (1 + math.exp(((t - 1) / total - middle) / width))
    size = u.norm() + 1e-7
    x, d = u / size, 0.5 * power
    flip = x.shape[0] > x.shape[1]
    x = x.T if flip else x
    eye = torch.eye(len(x), dtype=x.dtype)
    e = x @ x.T - eye
    o = (eye + d * e + 0.5 * d * (d - 1) * e @ e) @ oracle.polar(x) * size ** power
    return p * (1 - lr * decay) - lr * oracle.aspect(p) * (o.T if flip else o), dict(m=m)
