"""Lion, LAMB, ADOPT and AdEMAMix as plain torch code, after the papers that the templates cite."""

import math

import torch

CASES = [
    ("Lion", {}), ("Lion", dict(lr=1e-3, betas=(0.8, 0.9), weight_decay=0.1, maximize=True)),
    ("LAMB", {}), ("LAMB", dict(adam_w_mode=False, weight_decay=0.1)),
    ("LAMB", dict(weight_decay=0.0)), ("LAMB", dict(weight_decay=0.0, use_nvlamb=True)),
    ("LAMB", dict(grad_averaging=False, maximize=True)),
    ("ADOPT", {}), ("ADOPT", dict(clip=False, eps=0.1, weight_decay=0.1)),
    ("ADOPT", dict(decouple=True, weight_decay=0.1, maximize=True)),
    ("AdEMAMix", {}), ("AdEMAMix", dict(alpha=5.0, weight_decay=0.1, maximize=True)),
    ("AdEMAMix", dict(beta3_warmup=30, alpha_warmup=10, betas=(0.9, 0.95, 0.999))),
]


@torch.no_grad()
def advance(name, param, state, t, **group):
    """One step of `param` in float32; states and parameter are rounded to its dtype at the end."""
    w, dtype = param.float(), param.dtype
    g = -param.grad.float() if group["maximize"] else param.grad.float()
    old = {key: value.float() for key, value in state.items()}
    w, new = _RULES[name](w, g, lambda key: old.get(key, torch.zeros_like(w)), t, **group)
    param.copy_(w)
    state.update({key: value.to(dtype) for key, value in new.items()})


def _lion(w, g, old, t, lr, betas, weight_decay, **_):
    m = old("exp_avg")
    w = w * (1 - lr * weight_decay) - lr * torch.sign(betas[0] * m + (1 - betas[0]) * g)
    return w, {"exp_avg": betas[1] * m + (1 - betas[1]) * g}


def _lamb(w, g, old, t, lr, betas, eps, weight_decay, adam_w_mode, grad_averaging, use_nvlamb, **_):
    if not adam_w_mode:
        g = g + weight_decay * w
    m = betas[0] * old("exp_avg") + ((1 - betas[0]) if grad_averaging else 1.0) * g
    v = betas[1] * old("exp_avg_sq") + (1 - betas[1]) * g * g
    u = m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
    if adam_w_mode:
        u = u + weight_decay * w
    wide, far = float(w.norm()), float(u.norm())
    trusted = (use_nvlamb or weight_decay != 0) and wide and far
    return w - lr * (wide / far if trusted else 1.0) * u, {"exp_avg": m, "exp_avg_sq": v}


def _adopt(w, g, old, t, lr, betas, eps, weight_decay, decouple, clip, **_):
    if not decouple:
        g = g + weight_decay * w
    m, v = old("exp_avg"), old("exp_avg_sq")
    if t == 1:
        return w, {"exp_avg": m, "exp_avg_sq": g * g}
    if decouple:
        w = w * (1 - lr * weight_decay)
    n = g / v.sqrt().clamp_min(eps)
    if clip:
        n = n.clamp(-((t - 1) ** 0.25), (t - 1) ** 0.25)
    m = betas[0] * m + (1 - betas[0]) * n
    return w - lr * m, {"exp_avg": m, "exp_avg_sq": betas[1] * v + (1 - betas[1]) * g * g}


def _ademamix(w, g, old, t, lr, betas, alpha, beta3_warmup, alpha_warmup, eps, weight_decay, **_):
    beta1, beta2, beta3 = betas
    if alpha_warmup:
        alpha *= min(t / alpha_warmup, 1)
    if beta3_warmup and t < beta3_warmup:
        life = lambda beta: math.log(0.5) / math.log(beta + 1e-8) - 1
        part = t / beta3_warmup
        beta3 = 0.5 ** (1 / ((1 - part) * life(beta1) + part * life(beta3) + 1))
    fast = beta1 * old("exp_avg_fast") + (1 - beta1) * g
    slow = beta3 * old("exp_avg_slow") + (1 - beta3) * g
    v = beta2 * old("exp_avg_sq") + (1 - beta2) * g * g
    u = (fast / (1 - beta1 ** t) + alpha * slow) / (
        v.sqrt() / math.sqrt(1 - beta2 ** t) + eps) + weight_decay * w
    return w - lr * u, {"exp_avg_fast": fast, "exp_avg_slow": slow, "exp_avg_sq": v}


_RULES = {"Lion": _lion, "LAMB": _lamb, "ADOPT": _adopt, "AdEMAMix": _ademamix}
