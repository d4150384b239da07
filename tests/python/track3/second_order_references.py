"""Entries that keep squares, in float64: SOAP on a sphere, PMuon, Shampoo."""

import oracle
import torch
from oracle import aspect, ball, nesterov, orthonormal


def eta(t, total, part, power, least):
    return oracle.cooldown(t - 1, total, part, power, least)


def soaph(p, g, m, v, gl, gr, left, right, t, lr, mu, beta, eps, total, power, least):
    if t == 1:
        left, right = (torch.linalg.eigh(s)[1].flip(1) for s in (g @ g.T, g.T @ g))
    m, z = mu * m + (1 - mu) * g, left.T @ g @ right
    gl, gr = beta * gl + (1 - beta) * g @ g.T, beta * gr + (1 - beta) * g.T @ g
    v = beta * v + (1 - beta) * z ** 2
    u = left @ ((left.T @ m @ right) / (v.sqrt() + eps)) @ right.T
    left, right = orthonormal(gl @ left), orthonormal(gr @ right)
    p = ball(p, u, lr * eta(t, total, 1.0, power, least))
    return p, dict(m=m, v=v, gl=gl, gr=gr, left=left, right=right)


def pmuon(p, g, m, gl, gr, left, right, t, lr, mu, beta, gamma, decay):
    u, m = nesterov(g, m, mu)
    gl, gr = beta * gl + u @ u.T, beta * gr + u.T @ u
    own = [s * beta + x + 1e-6 * torch.eye(len(s), dtype=s.dtype) for s, x in ((gl, u @ u.T), (gr, u.T @ u))]
    left, right = [orthonormal(s if t == 1 else s @ q) for s, q in zip(own, (left, right))]
    for s, q, turn in zip(own, (left, right), (lambda x, s: s @ x, lambda x, s: x @ s)):
        u = turn(u, q @ torch.diag(torch.diag(q.T @ s @ q).clamp_min(1e-6) ** -gamma) @ q.T)
    return p * (1 - lr * decay) - lr * aspect(p) * oracle.polar(u), dict(m=m, gl=gl, gr=gr, left=left, right=right)


def root(s, power, eps=1e-12):
    values, vectors = torch.linalg.eigh(s)
    values = values + eps - min(values.min().item(), 0.0)
    return vectors @ torch.diag(values ** power) @ vectors.T


def shampoo(p, g, m, v, gl, gr, il, ir, t, lr, betas, eps, decay, every, single):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g ** 2
    gl, gr = betas[1] * gl + (1 - betas[1]) * g @ g.T, betas[1] * gr + (1 - betas[1]) * g.T @ g
    u, second = m / (1 - betas[0] ** t), 1 - betas[1] ** t
    adam = u / ((v / second).sqrt() + eps)
    if t % every == 0:
        power = -0.5 if single else -0.25
        il, ir = root(gl / second, power), root(gr / second, power)
    if t >= every:
        u = il @ u @ ir if not single else il @ u if len(p) <= p.shape[1] else u @ ir
        adam = u * adam.norm() / u.norm()
    return p - lr * (adam + decay * p), dict(m=m, v=v, gl=gl, gr=gr, il=il, ir=ir)
