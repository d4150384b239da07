"""What rules of several entries share. Muon's iteration is that of the entries, 12 times 2 x - 1.5 x^3 + 0.5 x^5."""

import altgrad.language as ag

FORMAT = "f32"  # the entries multiply in bf16, whose error would hide that of a formula here
POLAR = [(2.0, -1.5, 0.5)]


def nesterov(g, m, mu):
    m = ag.lerp(m, g, 1 - mu)
    return ag.lerp(g, m, mu), m


def polar(u, coefficients=POLAR):
    return ag.orthogonalize(u, coefficients=coefficients, steps=12, dtype=FORMAT, length="added")


def iterated(x):
    s = x @ x.T
    return ag.product(ag.product(s, s, by=0.5, plus=s, weight=-1.5), x, plus=x, weight=2.0)


def ball(p, u, lr):
    """A step of lr |p| along u, back on the sphere of p."""
    w = p - lr * p.norm() / ag.maximum(u.norm(), 1e-10) * u
    return w * (p.norm() / ag.maximum(w.norm(), 1e-10))


def by_lines(u, row, column, beta):
    """u with rows, or columns if there are more of them, by the root of their mean squares over the steps."""
    row = ag.lerp(row, (u * u).mean("row"), 1 - beta)
    column = ag.lerp(column, (u * u).mean("column"), 1 - beta)
    longer = ag.where(ag.rows >= ag.columns, row, column)
    return u / ag.sqrt(ag.maximum(longer, 1e-10)), row, column


def keep_norm(new, old):
    return new * (old.norm() / ag.maximum(new.norm(), 1e-10))


def floored(p, u, least):
    """u, at least so long beside p."""
    return u * ag.maximum(1.0, least * ag.maximum(p.norm(), 1e-8) / ag.maximum(u.norm(), 1e-8))


def over_spectral(x):
    """x by its largest singular value, from five power iterations on a vector of ones."""
    x, v = x * (1 / ag.maximum(x.norm(), 1e-10)), 1.0
    for _ in range(5):
        u = (x * v).sum("row")
        v = (x * u).sum("column")
    length = (x * u * v).sum()  # the sum of v^2 over columns
    top = (x * v).sum("row")
    return x * (ag.sqrt(length) / ag.sqrt((top * top).sum()))


def cooldown(t, total, part, power=1.0, least=0.0):
    """1, and from 1 - part of all steps on down to `least`; t is from 1."""
    left = ag.clamp((1 - (t - 1) / total) / part, 0.0, 1.0)
    return least + (1 - least) * left ** power
