"""Entries that divide Muon's direction by the size of its rows or columns, whichever are more."""

import oracle
from parts import ball, by_lines, floored, keep_norm, nesterov, polar

import altgrad.language as ag


@ag.rule(of="matrices")
def normuonh(p: ag.Param, g: ag.Grad, m: ag.State, row: ag.Row, column: ag.Column, *, lr=0.018, mu=0.95, beta=0.95):
    u, m = nesterov(g, m, mu)
    u, row, column = by_lines(polar(u) * ag.scale_by_shape("original"), row, column, beta)
    return ball(p, u, lr), dict(m=m, row=row, column=column)


def normuonh_reference(p, g, m, row, column, lr, mu, beta):
    u, m = oracle.nesterov(g, m, mu)
    u, row, column = oracle.by_lines(oracle.polar(u) * oracle.aspect(p), row, column, beta)
    return oracle.ball(p, u, lr), dict(m=m, row=row, column=column)


@ag.rule(of="matrices")
def normuon(p: ag.Param, g: ag.Grad, m: ag.State, row: ag.Row, column: ag.Column, *, lr=0.035, mu=0.95, beta=0.95, decay=0.025):
    u, m = nesterov(g, m, mu)
    o = polar(u) * ag.scale_by_shape("original")
    u, row, column = by_lines(o, row, column, beta)
    return ag.descend(p, keep_norm(u, o), lr, lr * decay), dict(m=m, row=row, column=column)


def normuon_reference(p, g, m, row, column, lr, mu, beta, decay):
    u, m = oracle.nesterov(g, m, mu)
    o = oracle.polar(u) * oracle.aspect(p)
    u, row, column = oracle.by_lines(o, row, column, beta)
    return p * (1 - lr * decay) - lr * u * (o.norm() / u.norm()), dict(m=m, row=row, column=column)


@ag.rule(of="matrices")
def normuon_floored(p: ag.Param, g: ag.Grad, m: ag.State, row: ag.Row, column: ag.Column, *, lr=0.0375, mu=0.95, beta=0.95, least=0.35):
    u, m = nesterov(g, m, mu)
    o = polar(u) * ag.scale_by_shape("original")
    u, row, column = by_lines(o, row, column, beta)
    return p - lr * floored(p, keep_norm(u, o), least), dict(m=m, row=row, column=column)


def normuon_floored_reference(p, g, m, row, column, lr, mu, beta, least):
    u, m = oracle.nesterov(g, m, mu)
    o = oracle.polar(u) * oracle.aspect(p)
    u, row, column = oracle.by_lines(o, row, column, beta)
    return p - lr * oracle.floored(p, u * (o.norm() / u.norm()), least), dict(m=m, row=row, column=column)
