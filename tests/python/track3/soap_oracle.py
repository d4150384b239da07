"""The formulas of SOAP-Muon and what entries put around it, in float64 by torch."""

import oracle
import torch
from oracle import basis, orthonormal

SOFT = (0.1091613623, 0.07085664498, 0.05210528973, 0.05457295795, 0.05011334061, 0.03334622198, 0.05022104481, 0.1053727358,
        0.1187323776, 0.1185061091, 0.1185059576, 0.1185059576)


def frobenius(x):
    return x.norm()


def schatten(x):
    """The root of the norm of x x^T."""
    return (x @ x.T).norm().sqrt()


def ramp(step, start, end):
    return min(1.0, max(0.0, (step - start) / (end - start)))


def precondition(u, v, left, right, t, beta, size, floor=0.0, blend=1.0, added=0.0):
    """(u divided by the root of its second moment in the bases, as long as before; that moment)"""
    if t == 1:
        return u, v
    z = left.T @ u @ right
    v = beta * v + (1 - beta) * z ** 2
    d = v.clamp_min(1e-16).sqrt() + added
    if floor:
        d = d.clamp_min(floor * d.square().mean().sqrt().item())
    w = blend * left @ (z / d) @ right.T + (1 - blend) * u
    return w * (size(u) / size(w)), v


def refreshed(g, gl, gr, left, right, v, t, beta, every):
    """The sums of squares and, of every so many steps, the bases, by a power step from the sorted ones."""
    gl, gr = beta * gl + (1 - beta) * g @ g.T, beta * gr + (1 - beta) * g.T @ g
    if t == 1:
        left, right = basis(gl), basis(gr)
    elif (t - 1) % every == 0:
        rows = torch.argsort(torch.diag(left.T @ gl @ left), descending=True)
        columns = torch.argsort(torch.diag(right.T @ gr @ right), descending=True)
        left, right = orthonormal(gl @ left[:, rows]), orthonormal(gr @ right[:, columns])
        v = v[rows][:, columns]
    return dict(gl=gl, gr=gr, left=left, right=right, v=v)


def cosine(a, b):
    return (a * b).sum() / (a.norm() * b.norm())


def trusted(u, w, g, t, size, low=0.45, high=0.85, until=1375.0, end=1625.0):
    """u on its way to w, the further the more both agree with each other and with g; as long as u."""
    gate = ((cosine(w, u) - 0.2) / 0.8).clamp(0, 1) * (cosine(w, g) / cosine(u, g).clamp_min(1e-8)).clamp(0, 1)
    least = low * (1 - ramp(t - 1, until, end))
    gate = gate.clamp(least, high if t - 1 < end else 1.0)
    mixed = u + (w - u) * gate
    return mixed * (size(u) / size(mixed))


def polar(u, size=schatten):
    return oracle.iterate(u / size(u))


def soft(u):
    x, total = u / schatten(u), 0
    for weight in SOFT:
        total, x = total + weight * x, oracle.iterate(x, [(2, -1.5, 0.5)])
    return total


def braked(p, u, outward):
    """The part of u along p weaker where it makes p longer."""
    along = (u * p).sum() / (p * p).sum()
    return u + ((outward if along < 0 else 1.0) - 1) * along * p


def pinned(p, u, lr):
    """The step along u at the radius that its part along p gives."""
    radius, w = p.norm() - lr * (u * p).sum() / p.norm(), p - lr * u
    return w * (radius / w.norm())
