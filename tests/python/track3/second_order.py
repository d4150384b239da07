"""Entries that keep squares: SOAP on a sphere, PMuon, Shampoo."""

import second_order_references as references
from parts import ball, cooldown, nesterov, polar

import altgrad.language as ag


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
