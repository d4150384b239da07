"""What entries put around the rule of another one: MuLoCo's outer steps, and EMA-Nesterov."""

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
