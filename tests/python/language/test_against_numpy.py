"""Rules beside their formulas in NumPy's float64, over random steps."""

import math

import numpy as np
import pytest
import rules


def lamb(p, g, m, v, t, lr, betas, eps, weight_decay):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
    u = m / (1 - betas[0]**t) / (np.sqrt(v / (1 - betas[1]**t)) + eps) + weight_decay * p
    return p - lr * np.linalg.norm(p) / np.linalg.norm(u) * u, dict(m=m, v=v)


def adan(p, g, m, d, n, before, t, lr, betas, eps, weight_decay):
    change = g - before if t > 1 else 0 * g
    m = betas[0] * m + (1 - betas[0]) * g
    d = betas[1] * d + (1 - betas[1]) * change
    n = betas[2] * n + (1 - betas[2]) * (g + betas[1] * change)**2
    rate = lr / (np.sqrt(n / (1 - betas[2]**t)) + eps)
    new = p - rate * (m / (1 - betas[0]**t) + betas[1] * d / (1 - betas[1]**t))
    return new / (1 + lr * weight_decay), dict(m=m, d=d, n=n, before=g)


def normed(p, g, m, second, lr, beta):
    m = beta * m + (1 - beta) * g
    rows = m.reshape(len(m) if m.ndim > 1 else 1, -1)
    second = beta * second + (1 - beta) * (rows**2).mean(1).reshape(second.shape)
    return p - lr * m / (np.sqrt(second) + 1e-8) * np.sqrt((p**2).mean()), m, second


def newton_schulz(p, g, lr):
    x = g / np.linalg.norm(g)
    for _ in range(5):
        s = x @ x.T
        x = 3.4445 * x + (-4.775 * s + 2.0315 * s @ s) @ x
    return p - lr * x


def adam_atan2(p, g, m, v, t, lr, betas, a):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
    return p - lr * a * np.arctan2(m / (1 - betas[0]**t), np.sqrt(v / (1 - betas[1]**t))), m, v


def padam(p, g, m, v, t, lr, betas, power, period):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
    return p - lr * (0.5 + 0.5 * np.cos(np.pi * t / period)) * m / (v + 1e-6)**power, m, v


def smooth(p, g, m, lr, beta):
    m = beta * m + (1 - beta) * g
    size, erf = abs(m) + 0.25, np.vectorize(math.erf)
    u = m / (1 + np.exp(-4 * m)) + np.tanh(m) + erf(m) + np.logaddexp(0, m) + np.sin(m) * np.cos(m) + np.cbrt(m) / np.sqrt(size)
    u = u + np.exp(-size) + np.log(size) + 2**m * np.log2(size) + np.expm1(m) * np.log1p(size) + 0.5**m
    return p - lr * u, dict(m=m)


CASES = [(lamb, [(5, 7), (9,), (3, 4, 5)], dict(lr=0.01)), (adan, [(5, 7), (9,)], dict(lr=0.01, betas=[0.9, 0.8, 0.95])),
         (adam_atan2, [(5, 7), (9,)], dict(lr=0.1)), (padam, [(5, 7), (9,)], dict(lr=0.1)), (smooth, [(5, 7), (9,)], dict(beta=0.5)),
         (normed, [(5, 7), (9,), (3, 4, 5)], dict(beta=0.5)), (newton_schulz, [(5, 7), (33, 17)], {})]


@pytest.mark.parametrize("reference, shapes, hypers", CASES, ids=lambda one: getattr(one, "__name__", None))
def test_the_largest_difference_is_rounding(reference, shapes, hypers):
    largest = getattr(rules, reference.__name__).check(reference, shapes=shapes, **hypers)
    assert largest and max(largest.values()) < 2e-5
