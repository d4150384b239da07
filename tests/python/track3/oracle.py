"""The shared formulas of references, in float64 by torch."""

import torch

POLAR = [(2, -1.5, 0.5)] * 12


def nesterov(g, m, mu):
    m = mu * m + (1 - mu) * g
    return (1 - mu) * g + mu * m, m


def iterate(x, coefficients=POLAR):
    for a, b, c in coefficients:
        x = a * x + (b * x @ x.T + c * x @ x.T @ x @ x.T) @ x
    return x


def polar(u, coefficients=POLAR):
    return iterate(u / (u.norm() + 1e-7), coefficients)


def aspect(p):
    return max(1, p.shape[0] / p.shape[1]) ** 0.5


def ball(p, u, lr):
    w = p - lr * p.norm() * u / u.norm()
    return w / w.norm() * p.norm()


def by_lines(u, row, column, beta):
    row = beta * row + (1 - beta) * u.square().mean(1, keepdim=True)
    column = beta * column + (1 - beta) * u.square().mean(0, keepdim=True)
    return u * (row if u.shape[0] >= u.shape[1] else column).clamp_min(1e-10).rsqrt(), row, column


def floored(p, u, least):
    return u * max(1.0, (least * p.norm() / u.norm()).item())


def over_spectral(x):
    v = torch.ones(x.shape[1], dtype=x.dtype)
    for _ in range(5):
        v = x.T @ (x @ v)
        v = v / v.norm()
    return x / (x @ v).norm()


def cooldown(step, total, part, power=1.0, least=0.0):
    """`step` is from 0, as the entries count."""
    progress = step / total
    return 1.0 if progress < 1 - part else least + (1 - least) * max(0.0, (1 - progress) / part) ** power


found: list = []  # the left and the right basis of the rule's step, which a reference goes on with once they are right


def close_to_zero(x, s):
    return x.abs().max() <= 1e-5 * s.abs().max()


def basis(s):
    """Eigenvectors, of the largest eigenvalue first. Signs are free, and so are all where eigenvalues are equal, as 0 is."""
    if not found:
        return torch.linalg.eigh(s)[1].flip(1)
    q = found.pop(0)
    values = q.T @ s @ q
    assert close_to_zero(q.T @ q - torch.eye(len(q)), torch.ones(1)) and close_to_zero(values - values.diag().diag(), s)
    assert close_to_zero(values.diag().diff().clamp_min(0.0), s)
    return q


def orthonormal(s):
    """Q of s = Q R. Signs are free, and so is what the columns of a singular matrix leave open."""
    if not found:
        return torch.linalg.qr(s)[0]
    q = found.pop(0)
    assert close_to_zero(q.T @ q - torch.eye(len(q)), torch.ones(1)) and close_to_zero((q.T @ s).tril(-1), s)
    return q
