"""The entries of SOAP-Muon: the momentum, divided by its second moment in the bases of sums of squares, goes into Muon."""

import soap_references as references
from parts import by_lines, floored, iterated, keep_norm, nesterov, over_spectral, polar

import altgrad.language as ag

SOFT = [0.1091613623, 0.07085664498, 0.05210528973, 0.05457295795, 0.05011334061, 0.03334622198, 0.05022104481, 0.1053727358,
        0.1187323776, 0.1185061091, 0.1185059576, 0.1185059576]


def schatten(x):
    """The root of the norm of x x^T, whose square is the sum of x (x x^T x)."""
    return (x * ag.product(x @ x.T, x)).sum() ** 0.25


def precondition(u, v, left, right, t, beta, size, floor=0.0, blend=1.0, added=0.0):
    """(u divided by the root of its second moment in the bases, as long as before; that moment)"""
    z = left.T @ u @ right
    new = ag.lerp(v, z * z, 1 - beta)
    d = ag.sqrt(ag.maximum(new, 1e-16)) + added
    d = ag.maximum(d, floor * ag.rms(d)) if floor else d
    w = blend * (left @ (z / d) @ right.T) + (1 - blend) * u
    return ag.where(t == 1, u, w * (size(u) / size(w))), ag.where(t == 1, v, new)


def refreshed(g, gl, gr, left, right, v, t, beta, every):
    """The sums of squares and, of every so many steps, the bases, by a power step from the sorted ones."""
    gl, gr = ag.lerp(gl, g @ g.T, 1 - beta), ag.lerp(gr, g.T @ g, 1 - beta)
    now, rows, columns = (t - 1) % every == 0, ag.order(gl, left), ag.order(gr, right)
    v = ag.where(now & (t > 1), rows.T @ v @ columns, v)
    left = ag.where(t == 1, ag.eigenbasis(gl), ag.where(now, ag.orthonormal(gl @ left @ rows), left))
    right = ag.where(t == 1, ag.eigenbasis(gr), ag.where(now, ag.orthonormal(gr @ right @ columns), right))
    return dict(gl=gl, gr=gr, left=left, right=right, v=v)


def cosine(a, b):
    return (a * b).sum() / (a.norm() * b.norm())


def ramp(t, start, end):
    return ag.clamp((t - 1 - start) / (end - start), 0.0, 1.0)


def trusted(u, w, g, t, size):
    """u on its way to w, the further the more both agree with each other and with g; as long as u."""
    gate = ag.clamp((cosine(w, u) - 0.2) / 0.8, 0.0, 1.0) * ag.clamp(cosine(w, g) / ag.maximum(cosine(u, g), 1e-8), 0.0, 1.0)
    gate = ag.minimum(ag.maximum(gate, 0.45 * (1 - ramp(t, 1375, 1625))), ag.where(t <= 1625, 0.85, 1.0))
    mixed = u + (w - u) * gate
    return mixed * (size(u) / size(mixed))


def steep(t, rate, cool, end):
    return ag.minimum(rate, cool * ag.maximum(0.0, end - (t - 1)) ** 1.2)


@ag.rule(of="matrices")
def contra_soap(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"),
                left: ag.Square("rows"), right: ag.Square("columns"), row: ag.Row, column: ag.Column, t: ag.Step, *, lr=0.0375,
                mu=0.95, beta=0.95, gram_beta=0.9, weight=0.4, least=0.35, every=10.0, gated: ag.Option = False):
    size = lambda x: x.norm()
    u, m = nesterov(g, m, mu)
    w, v = precondition(u, v, left, right, t, gram_beta, size, *((0.2,) if gated else (0.0, 1.0, 1e-8)))
    w = trusted(u, w, g, t, size) if gated else w
    o = polar(w)
    o = keep_norm(o - weight / 2 * over_spectral(w), o) * ag.scale_by_shape("original")
    n, row, column = by_lines(o, row, column, beta)
    p = p - lr * floored(p, keep_norm(n, o), least)
    return p, dict(m=m, row=row, column=column, **refreshed(g, gl, gr, left, right, v, t, gram_beta, every))


contra_soap_reference = references.contra_soap


def schatten_polar(u):
    x = ag.matrix(u / schatten(u))
    for _ in range(12):
        x = iterated(x)
    return x


def soft(u):
    x, total = ag.matrix(u / schatten(u)), 0.0
    for weight in SOFT:
        total, x = total + weight * x, iterated(x)
    return total


def alike(new, old):
    return new * (schatten(old) / schatten(new))


def braked(p, u, outward):
    """The part of u along p weaker where it makes p longer."""
    along = (u * p).sum() / (p * p).sum()
    return u + (ag.where(along < 0, outward, 1.0) - 1) * along * p


def pinned(p, u, rate):
    """The step along u at the radius that its part along p gives."""
    w = p - rate * u
    return w * ((p.norm() - rate * (u * p).sum() / p.norm()) / w.norm())


@ag.rule(of="matrices")
def soft_soap(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"),
              left: ag.Square("rows"), right: ag.Square("columns"), row: ag.Row, column: ag.Column, t: ag.Step, *, lr=0.0375, mu=0.95,
              beta=0.95, gram_beta=0.9, weight=0.2, until=2000.0, soft_from=2500.0, soft_to=3010.0, most=0.8, least=0.3825, every=10.0,
              cool=3.3169534699576625e-06, end=3105.0, outward=0.5, value: ag.Option = False, brake: ag.Option = False):
    u, m = nesterov(g, m, mu)
    w, v = precondition(u, v, left, right, t, gram_beta, schatten, *((0.55, 0.95) if value else ()))
    o = schatten_polar(w)
    c = alike(o - weight * (1 - ramp(t, 0.0, until)) * w / schatten(w), o)
    c = ag.lerp(c, alike(soft(w), o), ag.minimum(most, ramp(t, soft_from, soft_to)))
    c = alike(c, o) * ag.scale_by_shape("original")
    n, row, column = by_lines(c, row, column, beta)
    n, rate = alike(n, c), steep(t, lr, cool, end)
    p = pinned(p, floored(p, braked(p, n, outward), least), rate) if brake else p - rate * floored(p, n, least)
    return p, dict(m=m, row=row, column=column, **refreshed(g, gl, gr, left, right, v, t, gram_beta, every))


soft_soap_reference = references.soft_soap


@ag.rule(of="matrices")
def aurora_soap(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"),
                left: ag.Square("rows"), right: ag.Square("columns"), t: ag.Step, *, lr=0.0375, mu=0.95, gram_beta=0.9, weight=0.2,
                until=2500.0, least=0.3825, every=10.0, cool=3.3169534699576625e-06, end=3050.0, outward=0.5, tempered=0.05,
                value: ag.Option = False, temper: ag.Option = False):
    """`least`, `outward` and `tempered` change with the step by the caller's hand."""
    u, m = nesterov(g, m, mu)
    w, v = precondition(u, v, left, right, t, gram_beta, schatten, *((0.55, 0.95) if value else ()))
    o, near = balanced(w), w / schatten(w)
    if temper:
        rest = near - o
        o = alike(o + tempered * ag.minimum(1.0, 0.25 * schatten(o) / schatten(rest)) * rest, o)
    c = alike(o - weight * (1 - ramp(t, 0.0, until)) * near, o) * ag.scale_by_shape("original")
    p = pinned(p, floored(p, braked(p, c, outward), least), steep(t, lr, cool, end))
    return p, dict(m=m, **refreshed(g, gl, gr, left, right, v, t, gram_beta, every))


def balanced(u):
    """The polar factor of u D for a wide matrix, where D makes its columns equally long."""
    wide = ag.rows < ag.columns
    d = ag.where(wide, 1 / u.norm("column"), 1.0)
    for k in range(3):
        o = schatten_polar(d * u)
        d = d * ag.where(wide, ag.rows / ag.columns / ag.maximum((o * o).sum("column"), 1e-14), 1.0) ** 0.25 if k < 2 else d
    return o


aurora_soap_reference = references.aurora_soap


@ag.rule(of="matrices")
def clean_soap(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, gl: ag.Square("rows"), gr: ag.Square("columns"),
               left: ag.Square("rows"), right: ag.Square("columns"), t: ag.Step, *, lr=0.0375, mu=0.95, gram_beta=0.9, least=0.3825,
               cool=3.3169534699576625e-06, end=2900.0, outward=0.5, decay=0.0, gated: ag.Option = False, lines: ag.Option = False):
    u, m = nesterov(g, m, mu)
    w, v = precondition(u, v, left, right, t, gram_beta, schatten)
    w, rate = trusted(u, w, g, t, schatten) if gated else w, steep(t, lr, cool, end)
    o = braked(p, schatten_polar(w) * ag.scale_by_shape("original"), outward)
    o = o * ag.maximum(1.0, least * p.norm("row") / ag.maximum(o.norm("row"), 1e-8)) if lines else floored(p, o, least)
    new = pinned(p, o, rate)
    new = ag.where(o * p > 0, new * (1 - rate * decay), new) if lines else new
    return new, dict(m=m, **refreshed(g, gl, gr, left, right, v, t, gram_beta, 1.0))


clean_soap_reference = references.clean_soap
