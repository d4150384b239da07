"""The optimizers that torch does not have, as formulas in f64: the measure of their references."""

import numpy as np


def coupled(g, decay, w):
    """Rounded as in f32: what cancels here is the input's error, not the formula's."""
    return (g + decay * w).astype(np.float32).astype(np.float64)


def average(old, new, beta):
    return beta * old + (1 - beta) * new


def lion(s, h, t, g):
    w = s["w"] * (1 - h["lr"] * h["decay"])
    u = np.sign(average(s["m"], g, h["beta1"]))
    return {"w": w - h["lr"] * u, "m": average(s["m"], g, h["beta2"])}


def gridoptim(s, h, t, g):
    decay = float(np.float32(h["decay"]))  # a gradient may be as small as decay w, and cancel it
    velocity = h["momentum"] * s["velocity"] + coupled(g, decay, s["w"])
    return {"w": s["w"] - np.clip(h["scale"] * velocity, -h["rung_clip"], h["rung_clip"]), "velocity": velocity}


def manifoldadamw(s, h, t, g, plain=False):
    if not plain:
        stiff = np.where(s["w"] == 0, 1.0, 2.0 ** (np.floor(np.log2(np.abs(s["w"]) + (s["w"] == 0))) - h["mantissa_bits"]))
        g = g * np.minimum(1 / 128 if h["mantissa_bits"] == 7 else stiff, h["max_stiffness"])
    m, v = average(s["m"], g, h["beta1"]), average(s["v"], g**2, h["beta2"])
    u = m / (1 - h["beta1"] ** t) / (np.sqrt(v / (1 - h["beta2"] ** t)) + h["eps"])
    return {"w": s["w"] * (1 - h["lr"] * h["decay"]) - h["lr"] * u, "m": m, "v": v}


def signsgd(s, h, t, g, momentum_on=False):
    m = average(s["m"], g, h["momentum"]) if momentum_on else g
    w = s["w"] * (1 - h["lr"] * h["decay"]) - h["lr"] * np.sign(m)
    return {"w": w, **({"m": m} if momentum_on else {})}


def lamb(s, h, t, g, l2=False, nvlamb=False, no_grad_averaging=False):
    w, decay = s["w"], h["decay"]
    g = coupled(g, decay, w) if l2 else g
    m = h["beta1"] * s["m"] + (1 if no_grad_averaging else 1 - h["beta1"]) * g
    v = average(s["v"], g * g, h["beta2"])
    u = m / (1 - h["beta1"] ** t) / (np.sqrt(v / (1 - h["beta2"] ** t)) + h["eps"])
    u = u if l2 else u + decay * w
    wn, un = np.linalg.norm(w), np.linalg.norm(u)
    ratio = wn / un if (nvlamb or decay != 0) and wn != 0 and un != 0 else 1.0
    return {"w": w - h["lr"] * ratio * u, "m": m, "v": v}


def adopt(s, h, t, g, no_clip=False, decoupled=False):
    w, decay = s["w"], h["decay"]
    g = g if decoupled else coupled(g, decay, w)
    if t == 1:
        return {"w": w, "m": s["m"], "v": g**2}
    w = w * (1 - h["lr"] * decay) if decoupled else w
    n = g / np.maximum(np.sqrt(s["v"]), h["eps"])
    n = n if no_clip else np.clip(n, -((t - 1) ** 0.25), (t - 1) ** 0.25)
    m = average(s["m"], n, h["beta1"])
    return {"w": w - h["lr"] * m, "m": m, "v": average(s["v"], g**2, h["beta2"])}


def ademamix(s, h, t, g):
    def f(beta):
        return np.log(0.5) / np.log(beta + 1e-8) - 1
    alpha, beta3 = h["alpha"], h["beta3"]
    if t < h["alpha_warmup"]:
        alpha = alpha * t / h["alpha_warmup"]
    if t < h["beta3_warmup"]:
        x = t / h["beta3_warmup"]
        beta3 = 0.5 ** (1 / ((1 - x) * f(h["beta1"]) + x * f(beta3) + 1))
    fast, slow = average(s["fast"], g, h["beta1"]), average(s["slow"], g, beta3)
    v = average(s["v"], g**2, h["beta2"])
    u = fast / (1 - h["beta1"] ** t) + alpha * slow
    u = u / (np.sqrt(v / (1 - h["beta2"] ** t)) + h["eps"])
    return {"w": s["w"] - h["lr"] * (u + h["decay"] * s["w"]), "fast": fast, "slow": slow, "v": v}


def step(name, state, hyper, t, g, maximize=False, **options):
    wide = {k: v.astype(np.float64) for k, v in state.items()}
    g = g.astype(np.float64)
    return globals()[name](wide, hyper, t, -g if maximize else g, **options)
