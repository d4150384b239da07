"""Every template in every storage and mode, with start values: what the fixed tests run."""

import numpy as np

import evaluator
import inputs
import program

MODES = {"plain": [], "clip": ["--clip"], "unscale": ["--unscale"],
         "both": ["--unscale", "--clip"], "scaler": ["--scaler", "--clip"],
         "loss": ["--loss-scaler=torch", "--clip", "--statistics"]}
OPTIONS = {
    "sgd": ["", "momentum_on", "momentum_on,nesterov", "maximize", "momentum_on,maximize"],
    "adam": ["", "amsgrad", "maximize"], "adamw": ["", "amsgrad", "maximize"],
    "adagrad": ["", "maximize"],
    "rmsprop": ["", "centered", "momentum_on", "centered,momentum_on,maximize"],
    "lion": ["", "maximize"], "gridoptim": ["", "maximize"], "signsgd": ["", "momentum_on", "maximize"],
    "manifoldadamw": ["", "plain", "maximize", "positions"],
    "lamb": ["", "l2", "nvlamb", "no_grad_averaging,maximize"],
    "adopt": ["", "decoupled", "no_clip", "maximize"],
    "ademamix": ["", "maximize"]}
STORAGES = ("f32", "bf16", "f16", "master", "halves", "copy4", "copy5", "mixed")
# What a number of the whole step may be.
SCALARS = {"inv_scale": [0.37], "max_norm": [1.0], "grad_scale": [3.0], "growth_factor": [1.1],
           "backoff_factor": [0.3], "min_scale": [0.5, 1.0], "max_scale": [3.25, np.inf],
           "growth_interval": [3], "growth_tracker": [0, 1, 2, 3, 4], "hysteresis": [2],
           "hysteresis_tracker": [1, 2], "skipped": [5], "found": [0, 0, 1]}
# (rule with options, storage, flags): between them every way a kernel is made.
STEPS = {
    "adamw mixed": ("adamw", "param=bf16 grad=bf16 master=f32 m=ocp.e5m2 copy=ocp.e4m3fn",
                    ["--unscale", "--clip"]),
    "lamb": ("lamb", "param=f32", ["--clip"]),
    "sgd bf16": ("sgd{momentum_on,nesterov}", "param=bf16 grad=bf16 buf=bf16", []),
    "ademamix f16": ("ademamix", "param=f16 grad=f16", ["--scaler"]),
    "rmsprop copy": ("rmsprop{centered}", "param=bf16 master=f32 copy=ocp.e5m2", []),
    "lion f32": ("lion", "param=f32", ["--clip"]),
    "lamb halves": ("lamb", "param=bf16 grad=bf16 master=bf16+i16 states=bf16", ["--clip"]),
    "sgd boostr": ("sgd", "param=f16 grad=f16 master=f32", ["--loss-scaler=boostr"])}
# Hyper-parameters of the second and third group, where they differ from the defaults.
OTHERS = ({"lr": 0.037, "decay": 0.078125, "beta1": 0.3, "momentum": 0.9, "dampening": 0.25,
           "alpha_warmup": 12.0, "beta3_warmup": 15.0, "alpha": 0.4, "lr_decay": 0.1},
          {"lr": 1.0, "decay": 0.0, "eps": 1e-3, "beta2": 0.5, "momentum": 0.5, "nothing": 0.0})


def storage_words(rule, options, storage):
    """The words of --storage; `mixed` gives each state another format."""
    states = evaluator.stored_states(program.template_rule(rule), options.split(","))
    if storage in ("bf16", "f16"):
        return " ".join(f"{n}={storage}" for n in ["param", "grad", *states])
    if storage == "master":
        return "param=bf16 grad=bf16 master=f32"
    if storage == "halves":
        return "param=bf16 grad=bf16 master=bf16+i16"
    if storage == "copy4":
        return "copy=ocp.e4m3fn"
    if storage == "copy5":
        return "param=f16 master=f32 copy=ocp.e5m2"
    if storage == "mixed":
        turn = ["bf16", "ocp.e5m2", "f16", "ocp.e4m3fn"]
        words = [f"{s}={turn[i % 4]}" for i, s in enumerate(states)]
        step = "step" in program.template_rule(rule).roles()
        return " ".join(["param=f32", "grad=ocp.e5m2", *words, *(["t=f32"] if step else [])])
    return "param=f32"


def all_cases():
    """(rule, options, storage, mode); the options go round with storage and mode."""
    for rule, choices in OPTIONS.items():
        for i, storage in enumerate(STORAGES):
            for j, mode in enumerate(MODES):
                yield rule, choices[(i + j * 3) % len(choices)], storage, mode


def text_of(rule, options, storage, mode):
    chosen = f"{rule}{{{options}}}" if options else rule
    return program.generated(chosen, storage_words(rule, options, storage), *MODES[mode])


def start_values(compiled, rows, rng, special=0.02):
    """Codes and scalars to start from; what must not be negative is not."""
    values = {}
    keys = {s["name"]: s["key"] for s in compiled.manifest["streams"]}
    for name, access, scope, kind in compiled.signature:
        if kind.startswith("!altgrad.tensors"):
            form = inputs.formats.of_list(kind)[0]
            values[name] = inputs.codes(rng, form, sum(rows.sizes(name)), special,
                                        positive=keys[name] in ("v", "sum", "vmax"))
    for scalar in compiled.manifest["scalars"]:
        values[scalar["name"]] = _scalar(scalar, rows, rng)
    return values


def without_parameters(compiled, values):
    """Every other parameter 0: the update is not lost beside it."""
    for stream in compiled.manifest["streams"]:
        if stream["role"] in ("param", "master"):
            values[stream["name"]][::2] = 0


# A hyper-parameter and the streams that it multiplies.
MOVING = {"lr": ("grad",), "decay": ("param", "master"), "momentum": ("state",)}
STILL = ["", *MOVING, "nothing", "far"]


def still_values(compiled, rows, rng, moving):
    """Hyper-parameters of 0, so that most rules store what they have read and awkward numbers meet every rounding.
    One of MOVING is 2/3 and what it multiplies 3/2 times powers of 2: sums end next to the middles of narrow formats.
    `nothing` has no gradient, `far` goes to infinity. Gradients are finite, or nothing would be stored at all."""
    values, roles = {}, {s["name"]: s["role"] for s in compiled.manifest["streams"]}
    for name, access, scope, kind in compiled.signature:
        if kind.startswith("!altgrad.tensors"):
            form = inputs.formats.named(kind.removeprefix("!altgrad.tensors<")[:-1])
            count = sum(rows.sizes(name))
            numbers = inputs.awkward(rng, count, 0 if access == "in" else 0.02)
            if roles[name] in MOVING.get(moving, ()):
                numbers = np.copysign(np.float32(1.5), numbers) * np.exp2(-rng.integers(0, 14, count)).astype(np.float32)
            if roles[name] == "grad" and moving == "nothing":
                numbers = np.zeros_like(numbers)
            values[name] = inputs.formats.encode(form, numbers)
    fixed = {"inv_scale": 1.0, "max_norm": 3e38, "grad_scale": 1.0, "eps": 1.0,
             **({"lr": 1e39} if moving == "far" else {moving: 2 / 3})}
    for scalar in compiled.manifest["scalars"]:
        start = _scalar(scalar, rows, rng)
        values[scalar["name"]] = (start if scalar["scope"] == "tensor"
                                  else np.full(len(start), fixed.get(scalar["name"], 0.0)))
    return values


def _scalar(scalar, rows, rng):
    name, scope = scalar["key"], scalar["scope"]
    count = {"step": 1, "group": max(rows.group) + 1, "tensor": len(rows.numel)}[scope]
    if scope == "tensor":  # tensors need not have the same age
        return rng.choice([0, 0, 0, 1, 6, 100, 2**32 - 1], count).astype(
            {"i64": np.int64, "f32": np.float32}[scalar["type"]])
    if scope == "group":
        default = scalar["default"] if scalar["default"] is not None else _default(name)
        return np.array([default if g == 0 else OTHERS[(g - 1) % 2].get(name, default)
                         for g in range(count)])
    choices = SCALARS.get(name, [0.0])
    dtype = {"f32": np.float32, "f64": np.float64, "i64": np.int64}[scalar["type"]]
    return np.array([choices[0] if len(choices) == 1 else rng.choice(choices)], dtype)


_defaults = {}


def _default(name):
    """The default of a hyper-parameter in the rule in use; set by use_rule."""
    return _defaults[name]


def use_rule(rule):
    op = program.template_rule(rule)
    _defaults.clear()
    for _, role, name, _, _, default in op.said():
        if role == "hyper":
            _defaults[name] = float(default)


SCHEDULE = [(0.0, {}), (0.05, {"found_inf": np.array([1], np.float32)}),
            (0.0, {"found_inf": np.array([0], np.float32), "max_norm": np.array([1e9], np.float32)}),
            (0.01, {})]


def schedule_for(compiled):
    """Three or four steps: plain, unpleasant, plain without effect of a clip, unpleasant."""
    names = {n for n, *_ in compiled.signature}
    return [(share, {k: v for k, v in scalars.items() if k in names})
            for share, scalars in SCHEDULE]
