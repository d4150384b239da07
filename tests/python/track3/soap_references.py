"""The entries of the SOAP-Muon line in float64: each returns what its rule returns."""

import oracle
import soap_oracle as soap
from oracle import aspect, by_lines, floored, nesterov
from soap_oracle import frobenius, ramp, schatten


def contra_soap(p, g, m, v, gl, gr, left, right, row, column, t, lr, mu, beta, gram_beta, weight, least, every, gated):
    u, m = nesterov(g, m, mu)
    w, v = soap.precondition(u, v, left, right, t, gram_beta, frobenius, *((0.2,) if gated else (0.0, 1.0, 1e-8)))
    if gated:
        w = soap.trusted(u, w, g, t, frobenius)
    o = oracle.polar(w)
    c = o - weight / 2 * oracle.over_spectral(w)
    c = c * o.norm() / c.norm() * aspect(p)
    n, row, column = by_lines(c, row, column, beta)
    p = p - lr * floored(p, n * c.norm() / n.norm(), least)
    return p, dict(m=m, row=row, column=column, **soap.refreshed(g, gl, gr, left, right, v, t, gram_beta, every))


def power_cool(t, lr, cool, end, power=1.2):
    return min(lr, cool * max(0, end - (t - 1)) ** power)


def soft_soap(p, g, m, v, gl, gr, left, right, row, column, t, lr, mu, beta, gram_beta, weight, until, soft_from, soft_to, most,
              least, every, cool, end, outward, value, brake):
    u, m = nesterov(g, m, mu)
    w, v = soap.precondition(u, v, left, right, t, gram_beta, schatten, *((0.55, 0.95) if value else ()))
    o = soap.polar(w)
    c = o - weight * (1 - ramp(t - 1, 0, until)) * w / schatten(w)
    c, s = (x * schatten(o) / schatten(x) for x in (c, soap.soft(w)))
    c = c + (s - c) * min(most, ramp(t - 1, soft_from, soft_to))
    c = c * schatten(o) / schatten(c) * aspect(p)
    n, row, column = by_lines(c, row, column, beta)
    n, rate = n * schatten(c) / schatten(n), power_cool(t, lr, cool, end)
    p = soap.pinned(p, floored(p, soap.braked(p, n, outward), least), rate) if brake else p - rate * floored(p, n, least)
    return p, dict(m=m, row=row, column=column, **soap.refreshed(g, gl, gr, left, right, v, t, gram_beta, every))


def balanced(u, wide):
    """Aurora's, for wide matrices."""
    if not wide:
        return soap.polar(u)
    d = 1 / u.norm(dim=0, keepdim=True)
    for k in range(3):
        o = soap.polar(u * d)
        d = d * (u.shape[0] / u.shape[1] / o.square().sum(0, keepdim=True)) ** 0.25
    return o


def aurora_soap(p, g, m, v, gl, gr, left, right, t, lr, mu, gram_beta, weight, until, least, every, cool, end, outward, tempered,
                value, temper):
    u, m = nesterov(g, m, mu)
    w, v = soap.precondition(u, v, left, right, t, gram_beta, schatten, *((0.55, 0.95) if value else ()))
    o = balanced(w, w.shape[0] < w.shape[1])
    near = w / schatten(w)
    size = schatten(o)
    if temper:
        rest = near - o
        o = o + tempered * rest * min(1.0, (0.25 * size / schatten(rest)).item())
        o = o * size / schatten(o)
    c = o - weight * (1 - ramp(t - 1, 0, until)) * near
    c = c * size / schatten(c) * aspect(p)
    p = soap.pinned(p, floored(p, soap.braked(p, c, outward), least), power_cool(t, lr, cool, end))
    return p, dict(m=m, **soap.refreshed(g, gl, gr, left, right, v, t, gram_beta, every))


def clean_soap(p, g, m, v, gl, gr, left, right, t, lr, mu, gram_beta, least, cool, end, outward, decay, gated, lines):
    u, m = nesterov(g, m, mu)
    w, v = soap.precondition(u, v, left, right, t, gram_beta, schatten)
    w = soap.trusted(u, w, g, t, schatten) if gated else w
    o = soap.braked(p, soap.polar(w) * aspect(p), outward)
    rate = power_cool(t, lr, cool, end)
    if lines:
        o = o * (least * p.norm(dim=1, keepdim=True) / o.norm(dim=1, keepdim=True)).clamp_min(1.0)
    else:
        o = floored(p, o, least)
    new = soap.pinned(p, o, rate)
    new = new * (1 - rate * decay * (o * p > 0)) if lines else new
    return new, dict(m=m, **soap.refreshed(g, gl, gr, left, right, v, t, gram_beta, 1))
