"""Entries that take a part of the momentum off Muon's direction, and Aurora, whose direction has rows of one length."""

import oracle
from parts import by_lines, cooldown, floored, keep_norm, nesterov, over_spectral, polar

import altgrad.language as ag


@ag.rule(of="matrices")
def contra(p: ag.Param, g: ag.Grad, m: ag.State, row: ag.Row, column: ag.Column, t: ag.Step, *, lr=0.0375, mu=0.95, beta=0.95,
           weight=0.4, least=0.35, total=3250.0, part=0.7):
    u, m = nesterov(g, m, mu)
    o = polar(u)
    o = keep_norm(o - weight / 2 * over_spectral(u), o) * ag.scale_by_shape("original")
    u, row, column = by_lines(o, row, column, beta)
    return p - lr * cooldown(t, total, part) * floored(p, keep_norm(u, o), least), dict(m=m, row=row, column=column)


def contra_reference(p, g, m, row, column, t, lr, mu, beta, weight, least, total, part):
    u, m = oracle.nesterov(g, m, mu)
    o = oracle.polar(u)
    c = o - weight / 2 * oracle.over_spectral(u)
    c = c * o.norm() / c.norm() * oracle.aspect(p)
    u, row, column = oracle.by_lines(c, row, column, beta)
    step = oracle.floored(p, u * c.norm() / u.norm(), least)
    return p - lr * oracle.cooldown(t - 1, total, part) * step, dict(m=m, row=row, column=column)


def aurora_polar(u, rounds, power):
    """The polar factor of D u or u D, where D makes the lines that there are more of have one length."""
    wide = ag.rows < ag.columns
    size = ag.where(wide, u.norm("column"), u.norm("row"))
    d = ag.where(ag.rows == ag.columns, 1.0, 1 / ag.maximum(size, 1e-7))
    aim = ag.minimum(ag.rows, ag.columns) / ag.maximum(ag.rows, ag.columns)
    for k in range(rounds):
        o = polar(d * u)
        if k < rounds - 1:
            square = ag.where(wide, (o * o).sum("column"), (o * o).sum("row"))
            d = d * ag.where(ag.rows == ag.columns, 1.0, aim / ag.maximum(square, 1e-14)) ** power
    return o


@ag.rule(of="matrices")
def aurora(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=0.0375, mu=0.95, weight=0.4, least=0.35):
    u, m = nesterov(g, m, mu)
    o = aurora_polar(u, 2, 0.5)
    o = keep_norm(o - weight / 2 * over_spectral(u), o) * ag.scale_by_shape("original")
    return p - lr * floored(p, o, least), dict(m=m)


def balanced(u, rounds, power):
    """For a tall matrix; a wide one is transposed around it."""
    m, n = u.shape
    if m < n:
        return balanced(u.T, rounds, power).T
    if m == n:
        return oracle.polar(u)
    d = 1 / u.norm(dim=1, keepdim=True)
    for k in range(rounds):
        o = oracle.polar(d * u)
        if k < rounds - 1:
            d = d * (n / m / o.square().sum(1, keepdim=True)) ** power
    return o


def aurora_reference(p, g, m, lr, mu, weight, least):
    u, m = oracle.nesterov(g, m, mu)
    o = balanced(u, 2, 0.5)
    c = o - weight / 2 * oracle.over_spectral(u)
    c = c * o.norm() / c.norm() * oracle.aspect(p)
    return p - lr * oracle.floored(p, c, least), dict(m=m)
