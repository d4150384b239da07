"""The (rule, hyper-parameters, options) that tests/reference and tests/templates share."""

import numpy as np

import optimizers

CASES = [
    ("sgd", {}, {}),
    ("sgd", dict(decay=0.01), dict(maximize=True)),
    ("sgd", dict(momentum=0.9, dampening=0.3, decay=0.01), dict(momentum_on=True)),
    ("sgd", dict(momentum=0.9, lr=0.1), dict(momentum_on=True, nesterov=True, maximize=True)),
    ("adamw", {}, {}),
    ("adamw", dict(beta1=0.3), dict(amsgrad=True, maximize=True)),
    ("adam", {}, {}),
    ("adam", dict(decay=0.01, beta1=0.3), dict(amsgrad=True)),
    ("adam", dict(decay=0.01), dict(maximize=True)),
    ("adagrad", {}, {}),
    ("adagrad", dict(decay=0.01, lr_decay=0.1), dict(maximize=True)),
    ("rmsprop", {}, {}),
    ("rmsprop", dict(decay=0.01), dict(centered=True)),
    ("rmsprop", dict(momentum=0.9), dict(momentum_on=True)),
    ("rmsprop", dict(momentum=0.9, alpha=0.4),
     dict(centered=True, momentum_on=True, maximize=True)),
    ("lion", {}, {}),
    ("lion", dict(decay=0.1, lr=1e-2), dict(maximize=True)),
    ("gridoptim", {}, {}),
    ("gridoptim", dict(scale=0.5, momentum=0.5, decay=0.01, rung_clip=0.3), dict(maximize=True)),
    ("manifoldadamw", {}, {}),
    ("manifoldadamw", dict(mantissa_bits=7.0, decay=0.1), {}),
    ("manifoldadamw", dict(mantissa_bits=0.0, max_stiffness=0.5), dict(maximize=True)),
    ("manifoldadamw", dict(beta1=0.3), dict(plain=True)),
    ("signsgd", dict(decay=0.01), {}),
    ("signsgd", dict(momentum=0.8), dict(momentum_on=True, maximize=True)),
    ("lamb", {}, {}),
    ("lamb", dict(decay=0.0), {}),
    ("lamb", dict(decay=0.0), dict(nvlamb=True)),
    ("lamb", dict(decay=0.078125), dict(l2=True, no_grad_averaging=True, maximize=True)),
    ("adopt", {}, {}),
    ("adopt", dict(decay=0.01), dict(decoupled=True)),
    ("adopt", dict(decay=0.078125, eps=1e-3), dict(no_clip=True, maximize=True)),
    ("ademamix", {}, {}),
    ("ademamix", dict(beta1=0.0, beta3_warmup=15.0), {}),
    ("ademamix", dict(decay=0.01, alpha=5.0, alpha_warmup=12.0, beta3_warmup=15.0),
     dict(maximize=True)),
]


def name(case):
    rule, hyper, options = case
    words = [f"{k}={v:g}" for k, v in hyper.items()] + list(options)
    return "-".join([rule, *words])


def start(rule, options, n, seed=0):
    """A parameter with standard normal elements and zeroed states."""
    w = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    return {"w": w, **{s: np.zeros(n, np.float32) for s in optimizers.states(rule, **options)}}


def gradients(n, steps, seed=1):
    """Gradients over 15 binades with some zeros, as after a rectifier."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        g = rng.standard_normal(n) * np.exp2(rng.uniform(-12, 3, n))
        g[rng.random(n) < 0.05] = 0.0
        yield g.astype(np.float32)
