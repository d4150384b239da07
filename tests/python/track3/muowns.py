"""Muown: rows of a weight are g v / |v|, of which Adam moves g, and Muon v on a sphere whose radius has a schedule."""

import oracle
from parts import by_lines, keep_norm, over_spectral, polar

import altgrad.language as ag

EXPRESS = [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250), (3.2856, -2.4153, 0.4853),
           (2.2779, -1.6198, 0.3985), (1.8726, -1.2307, 0.3585), (1.8564, -1.2132, 0.3568)] + [(1.875, -1.25, 0.375)] * 5


def split(p, g, gain, first, t, total, aim, power):
    """(the gain of rows, their first one, v, its norm, the gradient of the gain, that of v)"""
    size = p.norm("row")
    size = ag.where(size <= 1e-12, 0.33 ** 0.5, size)
    gain, first = ag.where(t == 1, size, gain), ag.where(t == 1, size, first)
    radius = ag.lerp(first, aim, ag.clamp((t - 2) / (total - 1), 0.0, 1.0) ** power)
    u = p / gain
    along = (g * u).sum("row")
    return gain, first, u * radius, along, (gain / radius) * (g - u * along)


def joined(gain, v, along, m, s, t, lr, betas, eps):
    """(the weight, the new gain, its moments)"""
    m, s = ag.lerp(m, along, 1 - betas[0]), ag.lerp(s, along * along, 1 - betas[1])
    gain = gain - lr * (m / (1 - betas[0] ** t)) / (ag.sqrt(s / (1 - betas[1] ** t)) + eps)
    return v * (gain / ag.maximum(v.norm("row"), 1e-12)), gain, m, s


@ag.rule(of="matrices")
def muown(p: ag.Param, g: ag.Grad, gain: ag.Row, first: ag.Row, m: ag.State, mg: ag.Row, vg: ag.Row, t: ag.Step, *, lr=3.25e-3,
          mu=0.95, betas=(0.9, 0.95), eps=1e-8, scale=0.2, total=3165.0, aim=2.496, power=1.2):
    gain, first, v, along, gv = split(p, g, gain, first, t, total, aim, power)
    m = mu * m + gv
    v = v - lr * scale * ag.scale_by_shape("spectral") * polar(gv + mu * m, EXPRESS)
    p, gain, mg, vg = joined(gain, v, along, mg, vg, t, lr, betas, eps)
    return p, dict(gain=gain, first=first, m=m, mg=mg, vg=vg)


def muown_reference(p, g, gain, first, m, mg, vg, t, lr, mu, betas, eps, scale, total, aim, power, change=lambda o, u, t: o):
    if t == 1:
        gain = p.norm(dim=1, keepdim=True)
        gain = gain.where(gain > 1e-12, 0.33 ** 0.5)
        first = gain
    radius = first + (aim - first) * min(max(t - 2, 0) / (total - 1), 1) ** power
    u = p / gain
    along = (g * u).sum(1, keepdim=True)
    gv = gain / radius * (g - u * along)
    m = mu * m + gv
    o = change(oracle.polar(gv + mu * m, EXPRESS), gv + mu * m, t)
    v = u * radius - lr * scale * max(p.shape) ** 0.5 * o
    mg, vg = betas[0] * mg + (1 - betas[0]) * along, betas[1] * vg + (1 - betas[1]) * along ** 2
    gain = gain - lr * (mg / (1 - betas[0] ** t)) / ((vg / (1 - betas[1] ** t)).sqrt() + eps)
    return gain * v / v.norm(dim=1, keepdim=True), dict(gain=gain, first=first, m=m, mg=mg, vg=vg)


@ag.rule(of="matrices")
def contra_muown(p: ag.Param, g: ag.Grad, gain: ag.Row, first: ag.Row, m: ag.State, mg: ag.Row, vg: ag.Row, row: ag.Row,
                 column: ag.Column, t: ag.Step, *, lr=3.25e-3, mu=0.95, betas=(0.9, 0.95), eps=1e-8, beta=0.95, total=3165.0,
                 aim=2.496, power=1.2, weight=0.65, until=1925.0):
    gain, first, v, along, gv = split(p, g, gain, first, t, total, aim, power)
    m = mu * m + gv
    u, o = gv + mu * m, polar(gv + mu * m, EXPRESS)
    o = keep_norm(o - weight / 2 * ag.clamp(1 - (t - 1) / until, 0.0, 1.0) * over_spectral(u), o)
    n, row, column = by_lines(o, row, column, beta)
    v = v - lr * 0.2 * ag.scale_by_shape("spectral") * keep_norm(n, o)
    p, gain, mg, vg = joined(gain, v, along, mg, vg, t, lr, betas, eps)
    return p, dict(gain=gain, first=first, m=m, mg=mg, vg=vg, row=row, column=column)


def contra_muown_reference(p, g, gain, first, m, mg, vg, row, column, t, lr, mu, betas, eps, beta, total, aim, power, weight, until):
    lines = {}

    def change(o, u, t):
        c = o - weight / 2 * max(0.0, 1 - (t - 1) / until) * oracle.over_spectral(u)
        c = c * o.norm() / c.norm()
        n, lines["row"], lines["column"] = oracle.by_lines(c, row, column, beta)
        return n * c.norm() / n.norm()
    p, states = muown_reference(p, g, gain, first, m, mg, vg, t, lr, mu, betas, eps, 0.2, total, aim, power, change)
    return p, states | lines
