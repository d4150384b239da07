"""Every rule of templates/ once more, operation by operation in NumPy: the oracle of the compiler.

A rule is `rule(state, hyper, t, g, **options) -> state`: `state` maps "w" and
the names of the rule's states to f32 arrays, `hyper` maps names to floats, t is
1, 2, 3, ... Scalars are f64 and meet elements through exactly one rounding,
`f32(...)`. Imports neither torch nor altgrad, so that it can judge both.
"""

import math

import numpy as np

from reductions import over_tensor
from softfma import fma

f32 = np.float32


def power(base, exponent):
    """base ** exponent in f64 by repeated squaring: the order the compiler uses."""
    base, result = float(base), 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def _lerp(start, end, weight):
    """torch's lerp: from the nearer end."""
    weight = f32(weight)
    if weight < f32(0.5):
        return fma(weight, end - start, start)
    return fma(weight - f32(1), end - start, end)


def _average(old, new, beta):
    """beta old + (1 - beta) new, as torch's mul_ and add_(alpha=)."""
    return fma(f32(1.0 - beta), new, f32(beta) * old)


def _square_average(v, g, beta):
    """beta v + (1 - beta) g g, as torch's mul_ and addcmul_."""
    return fma(f32(1.0 - beta) * g, g, f32(beta) * v)


def _signed(g, maximize):
    return -g if maximize else g


def _decayed(decay, w, g):
    """g + decay w, and g itself without decay, as torch guards it: 0 times an infinite w is a NaN."""
    return fma(f32(decay), w, g) if decay != 0.0 else g


def sgd(state, h, t, g, momentum_on=False, nesterov=False, maximize=False):
    w, g = state["w"], _signed(g, maximize)
    g = _decayed(h["decay"], w, g)
    if not momentum_on:
        return {"w": fma(f32(-h["lr"]), g, w)}
    mu = f32(h["momentum"])
    buf = g if t == 1 else fma(f32(1.0 - h["dampening"]), g, mu * state["buf"])
    u = fma(mu, buf, g) if nesterov else buf
    return {"w": fma(f32(-h["lr"]), u, w), "buf": buf}


def _adam_tail(w, state, h, t, g, amsgrad):
    m = _lerp(state["m"], g, 1.0 - h["beta1"])
    v = _square_average(state["v"], g, h["beta2"])
    new = {"m": m, "v": v}
    if amsgrad:
        v = new["vmax"] = np.maximum(state["vmax"], v)
    step = h["lr"] / (1.0 - power(h["beta1"], t))
    root = math.sqrt(1.0 - power(h["beta2"], t))
    denom = np.sqrt(v) / f32(root) + f32(h["eps"])
    new["w"] = w + (f32(-step) * m) / denom
    return new


def adamw(state, h, t, g, amsgrad=False, maximize=False):
    w = state["w"] * f32(1.0 - h["lr"] * h["decay"])
    return _adam_tail(w, state, h, t, _signed(g, maximize), amsgrad)


def adam(state, h, t, g, amsgrad=False, maximize=False):
    w = state["w"]
    g = _decayed(h["decay"], w, _signed(g, maximize))
    return _adam_tail(w, state, h, t, g, amsgrad)


def adagrad(state, h, t, g, maximize=False):
    w = state["w"]
    g = _decayed(h["decay"], w, _signed(g, maximize))
    s = fma(g, g, state["sum"])
    rate = h["lr"] / (1.0 + (float(t) - 1.0) * h["lr_decay"])
    return {"w": w + (f32(-rate) * g) / (np.sqrt(s) + f32(h["eps"])), "sum": s}


def rmsprop(state, h, t, g, centered=False, momentum_on=False, maximize=False):
    w = state["w"]
    g = _decayed(h["decay"], w, _signed(g, maximize))
    v = spread = _square_average(state["v"], g, h["alpha"])
    new = {"v": v}
    if centered:
        mean = new["mean"] = _lerp(state["mean"], g, 1.0 - h["alpha"])
        spread = fma(-mean, mean, v)
    denom = np.sqrt(spread) + f32(h["eps"])
    if momentum_on:
        buf = new["buf"] = f32(h["momentum"]) * state["buf"] + g / denom
        new["w"] = fma(f32(-h["lr"]), buf, w)
    else:
        new["w"] = w + (f32(-h["lr"]) * g) / denom
    return new


def lion(state, h, t, g, maximize=False):
    g = _signed(g, maximize)
    w = state["w"] * f32(1.0 - h["lr"] * h["decay"])
    u = f32(h["beta1"]) * state["m"] + f32(1.0 - h["beta1"]) * g
    sign = (u > 0).astype(f32) - (u < 0).astype(f32)
    return {"w": fma(f32(-h["lr"]), sign, w), "m": _average(state["m"], g, h["beta2"])}


def gridoptim(state, h, t, g, maximize=False):
    w, velocity, bound = state["w"], state["velocity"], f32(h["rung_clip"])
    velocity = f32(h["momentum"]) * velocity + fma(f32(h["decay"]), w, _signed(g, maximize))
    r = np.minimum(np.maximum(f32(h["scale"]) * velocity, -bound), bound)
    return {"w": w - r, "velocity": velocity}


def signsgd(state, h, t, g, momentum_on=False, maximize=False):
    pull, new = _signed(g, maximize), {}
    if momentum_on:
        pull = new["m"] = _average(state["m"], pull, h["momentum"])
    sign = (pull > 0).astype(f32) - (pull < 0).astype(f32)
    return {"w": fma(f32(-h["lr"]), sign, state["w"] * f32(1.0 - h["lr"] * h["decay"])), **new}


def manifoldadamw(state, h, t, g, plain=False, maximize=False):
    w, g = state["w"], _signed(g, maximize)
    if not plain:
        binade = np.where(np.isfinite(w), np.ldexp(f32(1), np.frexp(w)[1] - 1), np.abs(w))
        stiff = np.where((w == 0) | np.isnan(w), f32(1), binade * f32(0.5 ** int(h["mantissa_bits"]))).astype(f32)
        stiff = np.full_like(w, 1 / 128) if h["mantissa_bits"] == 7 else stiff
        g = g * np.minimum(stiff, f32(h["max_stiffness"]))
    m, v = _average(state["m"], g, h["beta1"]), _square_average(state["v"], g, h["beta2"])
    w = w * f32(1.0 - h["lr"] * h["decay"])
    step, root = h["lr"] / (1.0 - power(h["beta1"], t)), math.sqrt(1.0 - power(h["beta2"], t))
    denom = np.sqrt(v) / f32(root) + f32(h["eps"])
    return {"w": w + (f32(-step) * m) / denom, "m": m, "v": v}


def lamb(state, h, t, g, l2=False, nvlamb=False, no_grad_averaging=False, maximize=False):
    w = state["w"]
    g = _signed(g, maximize)
    if l2:
        g = _decayed(h["decay"], w, g)
    gain = f32(1) if no_grad_averaging else f32(1.0 - h["beta1"])
    m = fma(gain, g, f32(h["beta1"]) * state["m"])
    v = _square_average(state["v"], g, h["beta2"])
    mhat = m / f32(1.0 - power(h["beta1"], t))
    vhat = v / f32(1.0 - power(h["beta2"], t))
    u = mhat / (np.sqrt(vhat) + f32(h["eps"]))
    if not l2:
        u = _decayed(h["decay"], w, u)
    wnorm, unorm = np.sqrt(over_tensor(w)), np.sqrt(over_tensor(u))
    ratio = f32(h["lr"])
    if (nvlamb or h["decay"] != 0.0) and wnorm != 0 and unorm != 0:
        ratio = ratio * (wnorm / unorm)
    return {"w": fma(-ratio, u, w), "m": m, "v": v}


def adopt(state, h, t, g, no_clip=False, decoupled=False, maximize=False):
    w, m, v = state["w"], state["m"], state["v"]
    g = _signed(g, maximize)
    if not decoupled:
        g = _decayed(h["decay"], w, g)
    if t == 1:
        return {"w": w, "m": m, "v": g * g}
    if decoupled:
        w = w if h["decay"] == 0.0 else fma(f32(-(h["lr"] * h["decay"])), w, w)
    n = g / np.maximum(np.sqrt(v), f32(h["eps"]))
    if not no_clip:
        c = f32(math.sqrt(math.sqrt(float(t - 1))))
        n = np.minimum(np.maximum(n, -c), c)
    m = fma(f32(1.0 - h["beta1"]), n - m, m)
    return {"w": fma(f32(-h["lr"]), m, w), "m": m, "v": _square_average(v, g, h["beta2"])}


def ademamix(state, h, t, g, maximize=False):
    w = state["w"]
    g = _signed(g, maximize)
    alpha, beta3 = h["alpha"], h["beta3"]
    if t < h["alpha_warmup"]:
        alpha = (t / h["alpha_warmup"]) * alpha
    if t < h["beta3_warmup"]:
        s = t / h["beta3_warmup"]
        from_ = (1.0 - s) / np.log(np.float64(h["beta1"] + 1.0e-8))
        to = s / np.log(np.float64(beta3 + 1.0e-8))
        beta3 = float(np.exp(1.0 / (from_ + to)))
    fast = _average(state["fast"], g, h["beta1"])
    slow = _average(state["slow"], g, beta3)
    v = _square_average(state["v"], g, h["beta2"])
    bc1, root = 1.0 - power(h["beta1"], t), math.sqrt(1.0 - power(h["beta2"], t))
    denom = np.sqrt(v) / f32(root) + f32(h["eps"])
    u = (fast / f32(bc1) + f32(alpha) * slow) / denom
    u = _decayed(h["decay"], w, u)
    return {"w": w + f32(-h["lr"]) * u, "fast": fast, "slow": slow, "v": v}


# The defaults stand here a second time on purpose: they check the templates'.
HYPER = {
    sgd: dict(lr=1e-3, momentum=0.0, dampening=0.0, decay=0.0),
    adamw: dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=1e-2),
    adam: dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.0),
    adagrad: dict(lr=1e-2, lr_decay=0.0, eps=1e-10, decay=0.0),
    rmsprop: dict(lr=1e-2, alpha=0.99, eps=1e-8, momentum=0.0, decay=0.0),
    lion: dict(lr=1e-4, beta1=0.9, beta2=0.99, decay=0.0),
    gridoptim: dict(scale=6.0, momentum=0.9, decay=1e-4, rung_clip=10.0),
    manifoldadamw: dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=1e-2, mantissa_bits=2.0, max_stiffness=1e6),
    signsgd: dict(lr=1e-3, momentum=0.9, decay=0.0),
    lamb: dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-6, decay=1e-2),
    adopt: dict(lr=1e-3, beta1=0.9, beta2=0.9999, eps=1e-6, decay=0.0),
    ademamix: dict(lr=1e-3, beta1=0.9, beta2=0.999, beta3=0.9999, alpha=2.0, eps=1e-8, decay=0.0,
                   alpha_warmup=0.0, beta3_warmup=0.0),
}
RULES = {rule.__name__: rule for rule in HYPER}


def states(name, **options):
    """The names of the states that a rule stores under these options."""
    on = options.get
    return {"sgd": ["buf"] * bool(on("momentum_on")),
            "adamw": ["m", "v"] + ["vmax"] * bool(on("amsgrad")),
            "adam": ["m", "v"] + ["vmax"] * bool(on("amsgrad")),
            "adagrad": ["sum"],
            "rmsprop": ["v"] + ["mean"] * bool(on("centered")) + ["buf"] * bool(on("momentum_on")),
            "gridoptim": ["velocity"], "manifoldadamw": ["m", "v"], "signsgd": ["m"] * bool(on("momentum_on")),
            "lion": ["m"], "lamb": ["m", "v"], "adopt": ["m", "v"],
            "ademamix": ["fast", "slow", "v"]}[name]


def step(name, state, hyper, t, g, **options):
    """One step of a rule by name; hyper-parameters left out take their defaults."""
    rule = RULES[name]
    with np.errstate(all="ignore"):
        new = rule(state, {**HYPER[rule], **hyper}, t, np.asarray(g, f32), **options)
    wrong = {k: v.dtype for k, v in new.items() if v.dtype != np.float32}
    assert not wrong, f"{name}: not float32: {wrong}"
    assert sorted(new) == sorted(["w"] + states(name, **options))
    return new
