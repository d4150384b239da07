"""Entries of other lines that keep squares: KL-SOAP and SOAP on a sphere, SinkSOAP, PMuon, Shampoo."""

import second_order_references as references
from parts import ball, by_lines, cooldown, keep_norm, nesterov, polar

import altgrad.language as ag


@ag.rule(of="matrices")
def klsoaph(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"),
            left: ag.Square("rows"), right: ag.Square("columns"), wl: ag.Row, wr: ag.Column, t: ag.Step, *, lr=0.018,
            betas=(0.95, 0.9), gram_beta=0.9, eps=1e-8, total=3125.0, part=1.0, power=1.0, least=0.0):
    """The first step takes the bases and moves nothing. wl and wr are the eigenvalues that whiten the other side."""
    first, b = t == 1, 1 - gram_beta
    wl, wr = ag.where(first, 0.1, wl), ag.where(first, 0.1, wr)
    m1, z = ag.lerp(m, g, 1 - betas[0]), left.T @ g @ right
    v1 = ag.lerp(v, z * z, 1 - betas[1])
    u = left @ ((left.T @ m1 @ right) / (ag.sqrt(v1) + eps)) @ right.T
    x, y = g @ right / ag.sqrt(wr), left.T @ g / ag.sqrt(wl)
    gl = ag.where(first, g @ g.T / ag.columns, ag.lerp(gl, x @ x.T / ag.columns, b))
    gr = ag.where(first, g.T @ g / ag.rows, ag.lerp(gr, y.T @ y / ag.rows, b))
    nl, nr = ag.lerp(wl, (z * z / wr).mean("row"), b), ag.lerp(wr, (z * z / wl).mean("column"), b)
    new = ball(p, u, lr * cooldown(t, total, part, power, least))
    left, right = ag.where(first, ag.eigenbasis(gl), ag.orthonormal(gl @ left)), ag.where(first, ag.eigenbasis(gr), ag.orthonormal(gr @ right))
    return ag.where(first, p, new), dict(m=ag.where(first, m, m1), v=ag.where(first, v, v1), gl=gl, gr=gr, left=left, right=right,
                                         wl=ag.where(first, wl, nl), wr=ag.where(first, wr, nr))


klsoaph_reference = references.klsoaph


@ag.rule(of="matrices")
def soaph(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"), left: ag.Square("rows"),
          right: ag.Square("columns"), t: ag.Step, *, lr=0.018, mu=0.95, beta=0.9, eps=1e-8, total=3125.0, power=1.0, least=0.0):
    l, r = g @ g.T, g.T @ g
    left, right = ag.where(t == 1, ag.eigenbasis(l), left), ag.where(t == 1, ag.eigenbasis(r), right)
    m, z = ag.lerp(m, g, 1 - mu), left.T @ g @ right
    gl, gr, v = ag.lerp(gl, l, 1 - beta), ag.lerp(gr, r, 1 - beta), ag.lerp(v, z * z, 1 - beta)
    u = left @ ((left.T @ m @ right) / (ag.sqrt(v) + eps)) @ right.T
    p = ball(p, u, lr * cooldown(t, total, 1.0, power, least))
    return p, dict(m=m, v=v, gl=gl, gr=gr, left=ag.orthonormal(gl @ left), right=ag.orthonormal(gr @ right))


soaph_reference = references.soaph


@ag.rule(of="matrices")
def sinksoap(p: ag.Param, g: ag.Grad, m: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"), row: ag.Row, column: ag.Column,
             left: ag.Square("rows"), right: ag.Square("columns"), *, lr=0.04, mu=0.95, beta=0.95, decay=0.025, eps=1e-8):
    """The bases are states so that somebody sees them."""
    u, m = nesterov(g, m, mu)
    gl, gr = ag.lerp(gl, g @ g.T, 1 - beta), ag.lerp(gr, g.T @ g, 1 - beta)
    left, right = ag.eigenbasis(gl), ag.eigenbasis(gr)
    a = left.T @ u @ right
    b, c = a * a + eps, 1.0
    for _ in range(10):
        r = 1 / ag.rows / ((b * c).sum("row") + eps)
        c = 1 / ag.columns / ((b * r).sum("column") + eps)
    u = left @ (ag.sqrt(r) * a * ag.sqrt(c)) @ right.T
    u = u * (ag.sqrt(ag.rows) / u.norm())
    n, row, column = by_lines(u, row, column, 0.95)
    u = ag.where(ag.rows == ag.columns, u, keep_norm(n, u))
    return ag.descend(p, u, lr, lr * decay), dict(m=m, gl=gl, gr=gr, row=row, column=column, left=left, right=right)


sinksoap_reference = references.sinksoap


def weakened(s, q, power):
    """s to the power of -power, by its diagonal in the basis q."""
    d = q.T @ s @ q
    return q @ ag.where(ag.identity(s) > 0, ag.maximum(d, 1e-6) ** -power, 0.0) @ q.T


@ag.rule(of="matrices")
def pmuon(p: ag.Param, g: ag.Grad, m: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"), left: ag.Square("rows"),
          right: ag.Square("columns"), t: ag.Step, *, lr=0.035, mu=0.95, beta=0.95, gamma=0.3, decay=0.025):
    """The bases begin as the identity, the entry's as random ones."""
    u, m = nesterov(g, m, mu)
    gl, gr = beta * gl + u @ u.T, beta * gr + u.T @ u
    l, r = beta * gl + u @ u.T + 1e-6 * ag.identity(gl), beta * gr + u.T @ u + 1e-6 * ag.identity(gr)
    left = ag.orthonormal(ag.where(t == 1, l, l @ left))
    right = ag.orthonormal(ag.where(t == 1, r, r @ right))
    o = polar(weakened(l, left, gamma) @ u @ weakened(r, right, gamma))
    return ag.descend(p, o, lr * ag.scale_by_shape("original"), lr * decay), dict(m=m, gl=gl, gr=gr, left=left, right=right)


pmuon_reference = references.pmuon


@ag.rule(of="matrices")
def shampoo(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"), il: ag.Square("rows"),
            ir: ag.Square("columns"), t: ag.Step, *, lr=1.5e-3, betas=(0.9, 0.95), eps=1e-10, decay=0.2, every=5.0,
            single: ag.Option = False):
    """As long as Adam's step, and Adam's before there are roots. `single` takes the square roots of the shorter side alone."""
    m, v = ag.lerp(m, g, 1 - betas[0]), ag.lerp(v, g * g, 1 - betas[1])
    gl, gr = ag.lerp(gl, g @ g.T, 1 - betas[1]), ag.lerp(gr, g.T @ g, 1 - betas[1])
    u, second = m / (1 - betas[0] ** t), 1 - betas[1] ** t
    adam = u / (ag.sqrt(v / second) + eps)
    il = ag.where(t % every == 0, ag.inverse_root(gl / second, 2 if single else 4), il)
    ir = ag.where(t % every == 0, ag.inverse_root(gr / second, 2 if single else 4), ir)
    u = ag.where(ag.rows <= ag.columns, il @ u, u @ ir) if single else il @ u @ ir
    u = ag.where(t >= every, u * (adam.norm() / ag.maximum(u.norm(), 1e-16)), adam)
    return p - lr * (u + decay * p), dict(m=m, v=v, gl=gl, gr=gr, il=il, ir=ir)


shampoo_reference = references.shampoo
