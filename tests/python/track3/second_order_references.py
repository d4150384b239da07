"""Entries of other lines that keep squares, in float64: KL-SOAP, SOAP on a sphere, SinkSOAP, PMuon, Shampoo."""

import oracle
import torch
from oracle import aspect, ball, basis, by_lines, nesterov, orthonormal


def eta(t, total, part, power, least):
    return oracle.cooldown(t - 1, total, part, power, least)


def klsoaph(p, g, m, v, gl, gr, left, right, wl, wr, t, lr, betas, gram_beta, eps, total, part, power, least):
    """`m` is in the coordinates of the weight; the entry keeps it in those of the bases, and turns it with them."""
    rows, columns = p.shape
    if t == 1:
        gl, gr = g @ g.T / columns, g.T @ g / rows
        return p, dict(m=m, v=v, gl=gl, gr=gr, left=basis(gl), right=basis(gr), wl=wl + 0.1, wr=wr + 0.1)
    m, z = betas[0] * m + (1 - betas[0]) * g, left.T @ g @ right
    v = betas[1] * v + (1 - betas[1]) * z ** 2
    u = left @ ((left.T @ m @ right) / (v.sqrt() + eps)) @ right.T
    x, y = g @ right / wr.sqrt(), left.T @ g / wl.sqrt()
    b = gram_beta
    gl, gr = b * gl + (1 - b) * x @ x.T / columns, b * gr + (1 - b) * y.T @ y / rows
    wl, wr = (b * wl + (1 - b) * (z ** 2 / wr).mean(1, keepdim=True),
              b * wr + (1 - b) * (z ** 2 / wl).mean(0, keepdim=True))
    left, right = orthonormal(gl @ left), orthonormal(gr @ right)
    p = ball(p, u, lr * eta(t, total, part, power, least))
    return p, dict(m=m, v=v, gl=gl, gr=gr, left=left, right=right, wl=wl, wr=wr)


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


def sinksoap(p, g, m, gl, gr, row, column, left, right, lr, mu, beta, decay, eps):
    u, m = nesterov(g, m, mu)
    gl, gr = beta * gl + (1 - beta) * g @ g.T, beta * gr + (1 - beta) * g.T @ g
    left, right = basis(gl), basis(gr)
    a = left.T @ u @ right
    b = a ** 2 + eps
    r, c = torch.ones(len(a), 1, dtype=a.dtype), torch.ones(1, a.shape[1], dtype=a.dtype)
    for _ in range(10):
        r = 1 / len(a) / ((b * c).sum(1, keepdim=True) + eps)
        c = 1 / a.shape[1] / ((b * r).sum(0, keepdim=True) + eps)
    u = left @ (r.sqrt() * a * c.sqrt()) @ right.T
    u = u * (min(a.shape) ** 0.5 * aspect(p) / u.norm())
    n, row, column = by_lines(u, row, column, 0.95)
    u = u if len(a) == a.shape[1] else n * u.norm() / n.norm()
    return p * (1 - lr * decay) - lr * u, dict(m=m, gl=gl, gr=gr, row=row, column=column, left=left, right=right)


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
