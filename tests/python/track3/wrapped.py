"""What entries put around the rule of another one: MuLoCo's outer steps, EMA-Nesterov, anchors, and the weights that are measured
in the end, which are other ones than those that are trained."""

import math

import torch

import altgrad.language as ag


@ag.transform
def muloco(p: ag.Param, w: ag.New, start: ag.State, u: ag.State, t: ag.Step, *, lr=0.7, momentum=0.5, every=30.0):
    """Each `every` steps, Nesterov's SGD along the way since the last time."""
    start, now = ag.where(t == 1, p, start), t % every == 0
    way = start - w
    outer = momentum * u + lr * way
    w = ag.where(now, start - momentum * outer - lr * way, w)
    return w, dict(start=ag.where(now, w, start), u=ag.where(now, outer, u))


def muloco_reference(p, w, t, start, u, lr, momentum, every):
    start = p if t == 1 else start
    if t % every == 0:
        way = start - w
        u = momentum * u + lr * way
        w = start = start - momentum * u - lr * way
    return w, dict(start=start, u=u)


@ag.transform
def ahead(p: ag.Param, w: ag.New, last: ag.State, ema: ag.State, t: ag.Step, *, beta=0.6, gamma=0.99, after=500.0, until=2400.0):
    """The gradient is taken ahead, along the average of steps; `last` has the weights themselves."""
    ema = ag.lerp(ema, w - ag.where(t == 1, p, last), 1 - gamma)
    return ag.where((t >= after) & (t < until), w + beta * ema, w), dict(last=w, ema=ema)


def ahead_reference(p, w, t, last, ema, beta, gamma, after, until):
    ema = gamma * ema + (1 - gamma) * (w - (p if t == 1 else last))
    return (w + beta * ema if after <= t < until else w), dict(last=w, ema=ema)


@ag.transform
def anchored(p: ag.Param, w: ag.New, start: ag.State, t: ag.Step, *, after=2000.0, until=2750.0):
    """Back to the first weights by 1 / (t + 1) of the way, which fades by a cosine (SODA)."""
    start, late = ag.where(t == 1, p, start), ag.clamp((t - 1 - after) / (until - after), 0.0, 1.0)
    return w + 0.5 * (1 + ag.cos(math.pi * late)) / (t + 1) * (start - p), dict(start=start)


def anchored_reference(p, w, t, start, after, until):
    start, late = p if t == 1 else start, min(1.0, max(0.0, (t - 1 - after) / (until - after)))
    return w + 0.5 * (1 + math.cos(math.pi * late)) / (t + 1) * (start - p), dict(start=start)


@ag.transform
def referred(w: ag.New, held: ag.State, t: ag.Step, *, gamma=-0.075, at=2375.0, end=2850.0):
    """In the end, from the weights of step `at` on by 1 + gamma of the way."""
    held = ag.where(t == at, w, held)
    return ag.where(t == end, w + gamma * (w - held), w), dict(held=held)


def referred_reference(w, t, held, gamma, at, end):
    held = w if t == at else held
    return (w + gamma * (w - held) if t == end else w), dict(held=held)


@ag.transform
def backward(w: ag.New, last: ag.State, ema: ag.State, t: ag.Step, *, beta=0.9, gamma=-6.0, most=0.01, after=2500.0, end=2900.0):
    """In the end, back along the average of steps."""
    ema, last = ag.where(t > after, ag.lerp(ema, w - last, 1 - beta), ema), ag.where(t >= after, w, last)
    bounded = ag.minimum(1.0, most * w.norm() / ag.maximum(ema.norm(), 1e-12))
    return ag.where(t == end, w + gamma * bounded * ema, w), dict(last=last, ema=ema)


def backward_reference(w, t, last, ema, beta, gamma, most, after, end):
    if t > after:
        ema = beta * ema + (1 - beta) * (w - last)
    last = w if t >= after else last
    return (w + gamma * ema * min(1.0, (most * w.norm() / ema.norm()).item()) if t == end else w), dict(last=last, ema=ema)


@ag.transform
def averaged(w: ag.New, ema: ag.State, t: ag.Step, *, horizon=150.0, weight=0.6, after=2400.0, end=2690.0):
    """In the end, by `weight` to the average since step `after`."""
    ema = ag.where(t == after, w, ag.where(t > after, ag.lerp(ema, w, 1 / horizon), ema))
    return ag.where(t == end, ag.lerp(w, ema, weight), w), dict(ema=ema)


def averaged_reference(w, t, ema, horizon, weight, after, end):
    ema = w if t == after else ema + (w - ema) / horizon if t > after else ema
    return (w + weight * (ema - w) if t == end else w), dict(ema=ema)


@ag.transform
def extrapolated(w: ag.New, a: ag.State, b: ag.State, c: ag.State, t: ag.Step, *, damping=0.875, most=1e-3, every=5.0, after=2820.0,
                 until=2925.0):
    """Every so often, to where the last four weights of all parameters go: a reduced rank extrapolation."""
    d = b - a, c - b, w - c
    m = [[ag.total(x * y) for y in d] for x in d]
    ridge = 1e-6 * (m[0][0] + m[1][1] + m[2][2]) / 3 + 1e-10
    m = [[m[i][j] + ridge if i == j else m[i][j] for j in range(3)] + [1.0] for i in range(3)]
    for i in range(3):
        m[i] = [x / m[i][i] for x in m[i]]
        m = [row if j == i else [x - row[i] * y for x, y in zip(row, m[i])] for j, row in enumerate(m)]
    whole = m[0][3] + m[1][3] + m[2][3]
    way = d[0] + (1 - m[0][3] / whole) * d[1] + m[2][3] / whole * d[2]
    share = ag.minimum(damping, most * ag.sqrt(ag.total(w * w) / ag.maximum(ag.total(way * way), 1e-24)))
    now = (t % every == 0) & (t >= after + 3) & (t <= until)
    w = ag.where(now, w - share * way, w)
    return w, dict(a=b, b=c, c=w)


def extrapolated_reference(w, t, a, b, c, damping, most, every, after, until):
    d = torch.stack([b - a, c - b, w - c]).flatten(1)
    if t % every == 0 and after + 3 <= t <= until:
        m = d @ d.T
        x = torch.linalg.solve(m + (1e-6 * m.trace() / 3 + 1e-10) * torch.eye(3, dtype=m.dtype), torch.ones(3, dtype=m.dtype))
        x = x / x.sum()
        way = -damping * (torch.stack([x.sum(), x[1:].sum(), x[2]]) @ d).reshape(w.shape)
        w = w + way * min(1.0, (most * w.norm() / way.norm()).item())
    return w, dict(a=b, b=c, c=w)
