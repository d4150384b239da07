"""Optimizers as their users write them."""

import altgrad.language as ag


@ag.rule
def adamw(p: ag.Param, g: ag.Grad, exp_avg: ag.State, exp_avg_sq: ag.State, t: ag.Step, *, lr=1e-3, betas=(0.9, 0.999), eps=1e-8,
          weight_decay=1e-2, amsgrad: ag.Option = False, maximize: ag.Option = False, max_exp_avg_sq: ag.State(when="amsgrad") = None):
    """Adam with decoupled weight decay.

    Args:
        lr: How far a step goes.
    """
    g = -g if maximize else g
    m, v = ag.lerp(exp_avg, g, 1 - betas[0]), ag.fma((1 - betas[1]) * g, g, betas[1] * exp_avg_sq)
    top = ag.maximum(max_exp_avg_sq, v) if amsgrad else None
    denom = ag.sqrt(top if amsgrad else v) / ag.sqrt(1 - betas[1] ** t) + eps
    p = p * (1 - lr * weight_decay) - lr / (1 - betas[0] ** t) * m / denom
    return p, dict(exp_avg=m, exp_avg_sq=v, max_exp_avg_sq=top)


@ag.rule
def lion(p: ag.Param, g: ag.Grad, exp_avg: ag.State, *, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
    u = ag.sign(betas[0] * exp_avg + (1 - betas[0]) * g)
    return ag.fma(-lr, u, p * (1 - lr * weight_decay)), ag.fma(1 - betas[1], g, betas[1] * exp_avg)


@ag.rule
def sgd(p: ag.Param, g: ag.Grad, buf: ag.State, t: ag.Step, *, lr=1e-3, momentum=0.9, dampening=0.0, weight_decay=0.0,
        nesterov: ag.Option = False):
    g = ag.where(weight_decay != 0, ag.fma(weight_decay, p, g), g)
    buf = ag.where(t == 1, g, ag.fma(1 - dampening, g, momentum * buf))
    return ag.fma(-lr, ag.fma(momentum, buf, g) if nesterov else buf, p), dict(buf=buf)


@ag.rule
def adopt(p: ag.Param, g: ag.Grad, exp_avg: ag.State, exp_avg_sq: ag.State, t: ag.Step, *, lr=1e-3, betas=(0.9, 0.9999), eps=1e-6):
    bound = (t - 1) ** 0.25
    n = ag.clamp(g / ag.maximum(ag.sqrt(exp_avg_sq), eps), -bound, bound)
    m = ag.fma(1 - betas[0], n - exp_avg, exp_avg)
    v = ag.fma(ag.where(t == 1, 1.0, 1 - betas[1]) * g, g, betas[1] * exp_avg_sq)
    first = t == 1
    return ag.where(first, p, ag.fma(-lr, m, p)), dict(exp_avg=ag.where(first, exp_avg, m), exp_avg_sq=v)


@ag.rule
def lamb(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, t: ag.Step, *, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    u = m / (1 - betas[0] ** t) / (ag.sqrt(v / (1 - betas[1] ** t)) + eps) + weight_decay * p
    size = u.norm()
    return p - lr * ag.where((p.norm() > 0) & (size > 0), p.norm() / size, 1.0) * u, m, v


@ag.rule
def adan(p: ag.Param, g: ag.Grad, m: ag.State, d: ag.State, n: ag.State, before: ag.State, t: ag.Step, *, lr=1e-3,
         betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.02):
    change = ag.where(t == 1, 0.0, g - before)
    m, d = ag.lerp(m, g, 1 - betas[0]), ag.lerp(d, change, 1 - betas[1])
    n = ag.lerp(n, (g + betas[1] * change) ** 2, 1 - betas[2])
    u = (m / (1 - betas[0] ** t) + betas[1] * d / (1 - betas[1] ** t)) / (ag.sqrt(n / (1 - betas[2] ** t)) + eps)
    return (p - lr * u) / (1 + lr * weight_decay), dict(m=m, d=d, n=n, before=g)


@ag.rule
def normed(p: ag.Param, g: ag.Grad, m: ag.State, second: ag.Unit, *, lr=1e-2, beta=0.9):
    """Momentum, whose rows are divided by the root of the mean of their squares over all steps."""
    m = ag.lerp(m, g, 1 - beta)
    second = ag.lerp(second, (m * m).mean("unit"), 1 - beta)
    return p - lr * m / (ag.sqrt(second) + 1e-8) * ag.rms(p), dict(m=m, second=second)


@ag.rule(of="matrices")
def muon(p: ag.Param, g: ag.Grad, buf: ag.State, *, lr=1e-3, momentum=0.95, weight_decay=0.1, eps=1e-7, nesterov: ag.Option = True):
    buf = ag.lerp(buf, g, 1 - momentum)
    o = ag.orthogonalize(ag.lerp(g, buf, momentum) if nesterov else buf, eps=eps)
    return ag.descend(p, o, rate=lr * ag.scale_by_shape("original"), decay=lr * weight_decay), dict(buf=buf)


@ag.rule(of="matrices")
def newton_schulz(p: ag.Param, g: ag.Grad, *, lr=1e-2):
    x = ag.matrix(g / (g.norm() + 1e-7))
    for a, b, c in [(3.4445, -4.775, 2.0315)] * 5:
        s = x @ x.T
        x = ag.product(ag.product(s, s, by=c, plus=s, weight=b), x, plus=x, weight=a)
    return p - lr * x


@ag.rule
def adam_atan2(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, t: ag.Step, *, lr=1e-3, betas=(0.9, 0.99), a=1.27):
    """Everett et al., 2024: no epsilon, and steps of a pi / 2 at most."""
    m, v = ag.lerp(m, g, 1 - betas[0]), ag.lerp(v, g * g, 1 - betas[1])
    return p - lr * a * ag.atan2(m / (1 - betas[0] ** t), ag.sqrt(v / (1 - betas[1] ** t))), m, v


@ag.rule
def padam(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, t: ag.Step, *, lr=1e-2, betas=(0.9, 0.99), power=0.125, period=50):
    """A power of the root that is a hyper-parameter, and a rate that falls by a cosine."""
    m, v = ag.lerp(m, g, 1 - betas[0]), ag.lerp(v, g * g, 1 - betas[1])
    return p - lr * (0.5 + 0.5 * ag.cos(3.141592653589793 * t / period)) * m / ((v + 1e-6) ** power), m, v


@ag.rule
def smooth(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=1e-2, beta=0.9):
    """Every function of one element."""
    m = ag.lerp(m, g, 1 - beta)
    size = abs(m) + 0.25
    u = m * ag.sigmoid(4 * m) + ag.tanh(m) + ag.erf(m) + ag.softplus(m) + ag.sin(m) * ag.cos(m) + ag.cbrt(m) * ag.rsqrt(size)
    u = u + ag.exp(-size) + ag.log(size) + ag.exp2(m) * ag.log2(size) + ag.expm1(m) * ag.log1p(size) + 0.5 ** m
    return p - lr * u, dict(m=m)
