"""GridOptim: parameters on a number format's grid, which move by rungs."""

from contextlib import contextmanager
from numbers import Real

import torch
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.hooks import uncompiled, watched
from .._binding.layout import FORMATS
from .._bundle import compile_sets
from .._rule import set_line
from .._storage.line import Storage
from .._storage.rungs import clear_counts, count
from ._keywords import Shared, filled, shown
from ._named import find_template
from ._optimizer import Optimizer

_PROFILES = None, "torch", "reference"


class GridOptim(Optimizer):
    """GridOptim (ParkerWilliams/altgrad, training/optimizer.py): momentum in rungs of an 8-bit grid.

        g += weight_decay p;  velocity = momentum velocity + g
        k = clamp(velocity scale, +-rung_clip), rounded stochastically to a whole number
        p goes k numbers down the grid, not beyond its end

    The grid is that of `fp8_dtype`, or of the format named `format` ("altgrad.e3m4"; with a sign
    and at most 8 bits). Parameters are float32 (bfloat16 or float16 where these hold every number
    of the grid) and snap to the nearest number in their first step; or they hold codes, in
    `fp8_dtype` or, where torch has no dtype, in uint8. Gradients are float32, bfloat16 or
    float16 and stay as they were; parameters of codes are given `grad_dtype` float32, so that torch takes
    them (its cast, `param.float()`, rounds gradients to the codes' format on their way back). `state` has `velocity` in float32, or as `storage` says ("velocity=bf16").

    `lr` is a factor of `scale`, for torch's schedulers and for whoever sets it to 0, as
    torch.distributed.checkpoint does to make states.

    A NaN as k moves nothing, a code that is no number stays. k is off by 2^-16 on average at the
    most; `seed` and the count of draws lie in the param_groups, as everywhere.
    `profile="reference"` does what the source does: k = floor(velocity scale + U) of the sum as
    float32 rounds it, and what lies between two numbers snaps to the upper one; U is a
    draw in 65536ths.

    Raises ValueError for numbers that make no sense, altgrad.Error for a format that is no grid.
    """

    _hypers = {"decay": "weight_decay"}
    _keys = {"velocity": "velocity"}
    _options = {"maximize": lambda group: group["maximize"]}
    _older = dict(scale=6.0, momentum=0.9, weight_decay=1e-4, rung_clip=10, maximize=False, lr=1.0)

    @shown
    @torch._disable_dynamo
    def __init__(self, params: ParamsT, scale: float | torch.Tensor = 6.0, momentum: float = 0.9,
                 weight_decay: float = 1e-4, rung_clip: float = 10, fp8_dtype: torch.dtype = torch.float8_e4m3fn, *,
                 lr: float | torch.Tensor = 1.0, format: str | None = None, maximize: bool = False,
                 **shared: Unpack[Shared]):
        given = filled(type(self).__name__, shared)
        profile = given["profile"]
        if profile not in _PROFILES:
            raise ValueError(f"Invalid profile value: {profile}; it is None, 'torch' or 'reference'")
        defaults = dict(scale=scale, momentum=momentum, weight_decay=weight_decay,
                        rung_clip=rung_clip, maximize=maximize, lr=lr)
        for key in ("lr", "scale", "momentum", "weight_decay", "rung_clip"):
            _check(key, defaults[key])
        words = _words(_format(fp8_dtype, format), profile == "reference", given["storage"])
        super().__init__(params, defaults, **{**given, "storage": words,
                                              "profile": None if profile == "reference" else profile})

    def _rule_of(self, group):
        return find_template("gridoptim")

    @watched
    @uncompiled
    def step(self, current_scale=None, *, closure=None):
        """One step; (flips, updates), 0-dim int64 tensors on the device that nobody waits for.

        Of the elements of all parameters `flips` have another value now, and `updates` had a
        gradient beyond 1e-10, after unscaling and clips; counts are exact for parameters of up to 2^24
        elements. A skipped step has neither. `current_scale` is this step's `scale` in every group.
        """
        if callable(current_scale) and not isinstance(current_scale, torch.Tensor):
            current_scale, closure = None, current_scale
        if closure is not None:
            with torch.enable_grad():
                closure()
        with self._turns, self._scaled(current_scale):
            if self._built:
                clear_counts(self._built.tables)
            self._advance()
            tables = self._built.tables if self._built else []
            return count(tables, "flips"), count(tables, "updates")

    @contextmanager
    def _scaled(self, scale):
        """While a step runs: every group has this scale, or its own, times its `lr`."""
        if scale is not None:
            _check("current_scale", scale)
        kept = []
        try:
            for group in self.param_groups:
                rate, own = group["lr"], group["scale"]
                if scale is None and type(rate) is float and rate == 1.0:
                    continue
                _check("lr", rate)
                kept.append((group, own))
                group["scale"] = (own if scale is None else scale) * rate
            yield
        finally:
            for group, own in kept:
                group["scale"] = own


def _check(key, value):
    # A tensor may lie on a device that nobody waits for.
    if not isinstance(value, torch.Tensor) and not (isinstance(value, Real) and value >= 0.0):
        raise ValueError(f"Invalid {key} value: {value}; it is a number from 0")


def _format(dtype, name):
    if name is not None:
        return name
    if dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
        raise TypeError(f"fp8_dtype is {dtype}, not torch.float8_e4m3fn or float8_e5m2; other grids "
                        "are formats by name: format='altgrad.e3m4'")
    return FORMATS[dtype]


def _words(grid, reference, storage):
    """The storage, if a program for float32 can be made of it."""
    given = Storage(storage)
    for name in ("param", "master", "rungs"):
        if name in given:
            raise ValueError(f"storage says {name}={given[name]}; what a parameter is says its dtype, "
                             "and its grid `fp8_dtype` or `format`")
    words = Storage({"states": "f32", "rungs": f"{grid},reference" if reference else grid}) | given
    rule = find_template("gridoptim")
    compile_sets([set_line(rule, (), {"param": "f32", "grad": "f32", "step": "f32", **words})], [rule])
    return words
