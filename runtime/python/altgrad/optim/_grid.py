"""GridOptim: parameters on a number format's grid, which move by rungs."""

from collections.abc import Callable
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.hooks import uncompiled, watched
from .._binding.layout import FORMATS
from .._bundle import compile_sets
from .._rule import set_line
from .._storage.line import Storage
from .._storage.grid import clear_counts, count
from .._storage.streams import check_streams, in_rule_names
from ._integrations import check_untraced
from ._keywords import Shared, filled, shown
from ._named import find_template
from ._numerics import numerics_of
from ._optimizer import Optimizer

if TYPE_CHECKING:
    from ..amp import GradScaler

_NUMERICS = None, "torch", "reference"


class GridOptim(Optimizer):
    """GridOptim (ParkerWilliams/altgrad): momentum in rungs, the places of the numbers of an 8-bit grid.

        g += weight_decay p;  velocity = momentum velocity + g
        k = clamp(velocity scale, +-rung_clip), rounded stochastically to a whole number
        p goes k numbers down the grid, not beyond its end

    Parameters are float32 (bfloat16 or float16 where these hold every number of the grid) and are rounded to
    the nearest number of the grid in their first step. Or they are codes, in `fp8_dtype` or, where torch has no
    dtype, in uint8; such parameters are given `grad_dtype` float32, so that torch takes float32 gradients for
    them (torch's own cast, `param.float()`, rounds gradients to the codes' format on their way back). Gradients
    are float32, bfloat16 or float16 and stay as they were. `state[param]` holds `velocity` in the shape of the
    parameter, in float32 unless `storage` says otherwise ("velocity=bf16"). A velocity that is NaN moves
    nothing, and a code that is no number stays. k is off by 2^-16 on average at the most. The seed and the
    count of random steps lie in the param_groups.

    Args:
        scale: How many rungs a velocity of 1 moves, a number of at least 0 or a tensor of one element.
        momentum: The decay rate of the velocity, from 0.
        weight_decay: The factor of the weight decay, which is added to the gradient; a number from 0.
        rung_clip: The most rungs that one step moves, from 0.
        fp8_dtype: The grid: torch.float8_e4m3fn or torch.float8_e5m2.
        lr: A factor of `scale`, for torch's schedulers and for torch.distributed.checkpoint, which sets it
            to 0 to make states.
        maximize: Whether the step ascends along the gradient.
        format: The grid by the name of a format with a sign and at most 8 bits ("altgrad.e3m4"), in place of
            `fp8_dtype`.
        numerics: "reference" does what the source does: k = floor(velocity scale + U) of the sum rounded to
            float32, where U is a random number in 65536ths, and parameters between two numbers are first rounded up.
            "torch" rounds gradients to their dtype after unscaling and clipping. None does neither.
        storage: In which format `velocity` is stored, as a storage line, an altgrad.optim.Storage or a dict. The
            parameter has no word.

    Raises:
        ValueError: A number is out of range, or the storage names the parameter.
        TypeError: `fp8_dtype` is another dtype.
        altgrad.Error: `format` is no grid.

    Example:
        >>> optimizer = altgrad.optim.GridOptim(model.parameters(), scale=6.0, momentum=0.9)
        >>> flips, updates = optimizer.step()
    """

    _hypers = {"decay": "weight_decay"}
    _storage = ""  # the constructor gives all words
    _options = {"maximize": lambda group: group["maximize"]}
    _older = dict(scale=6.0, momentum=0.9, weight_decay=1e-4, rung_clip=10, maximize=False, lr=1.0)

    @shown
    @torch._disable_dynamo
    def __init__(self, params: ParamsT, scale: float | torch.Tensor = 6.0, momentum: float = 0.9,
                 weight_decay: float = 1e-4, rung_clip: float = 10, fp8_dtype: torch.dtype = torch.float8_e4m3fn, *,
                 lr: float | torch.Tensor = 1.0, format: str | None = None, maximize: bool = False,
                 **shared: Unpack[Shared]):
        given = filled(type(self).__name__, self._new_words(shared))
        numerics, storage = given["numerics"], given["storage"]
        if numerics not in _NUMERICS:
            raise ValueError(f"Invalid numerics value: {numerics}; it has to be None, 'torch' or 'reference'")
        defaults = dict(scale=scale, momentum=momentum, weight_decay=weight_decay,
                        rung_clip=rung_clip, maximize=maximize, lr=lr)
        for key in ("lr", "scale", "momentum", "weight_decay", "rung_clip"):
            _check(key, defaults[key])
        words = _words(_format(fp8_dtype, format), numerics == "reference", storage)
        given.update(storage=words)
        super().__init__(params, defaults, **given)

    @property
    def numerics(self) -> str | None:
        """"torch", "reference" or None, as the constructor takes it."""
        return "reference" if self._is_reference() else self._numerics

    @numerics.setter
    def numerics(self, word: str | None) -> None:
        if (word == "reference") != self._is_reference():
            raise ValueError(f"altgrad.optim.GridOptim: numerics was {self.numerics!r} when the optimizer was made and cannot "
                             f"become {word!r}: 'reference' is said to the constructor")
        if word != "reference":
            self._numerics = numerics_of(word)

    def _is_reference(self):
        return self._words["rungs"].endswith(",reference")

    def _rule_of(self, group):
        return find_template("gridoptim")

    @watched
    @uncompiled
    def step(self, current_scale: "float | torch.Tensor | Callable[[], Any] | None" = None, *,
             closure: Callable[[], Any] | None = None, scaler: "GradScaler | None" = None) -> Any:
        """Performs one step.

        Args:
            current_scale: The `scale` of every group in this step, or a closure; None takes the groups' own.
            closure: Called first, with gradients enabled; it computes the loss and its gradients.
            scaler: The scaler of the loss, which gives itself in `scaler.step(optimizer)`.

        Returns:
            What `closure` returns, or without one `counts`: (flips, updates), as the source's step does.

        Raises:
            ValueError: `current_scale` is no number from 0. And what the step of Optimizer raises.
        """
        if callable(current_scale) and not isinstance(current_scale, torch.Tensor):
            current_scale, closure = None, current_scale
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        check_untraced(type(self).__name__)
        with self._lock, self._scaled(current_scale):
            if self._built:
                clear_counts(self._built.tables)
            self._advance(scaler)
            return self.counts if closure is None else loss

    @property
    def counts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(flips, updates) of the last step, two 0-dim int64 tensors on the parameters' device, which is not waited
        for.

        Of the elements of all parameters `flips` have another value now, and `updates` had a gradient beyond 1e-10
        after unscaling and clipping. Counts are exact for parameters of up to 2^24 elements. A skipped step counts
        neither.
        """
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
    # Reading a tensor on a device would wait for it.
    if not isinstance(value, torch.Tensor) and not (isinstance(value, Real) and value >= 0.0):
        raise ValueError(f"Invalid {key} value: {value}; it has to be a number of at least 0")


def _format(dtype, name):
    if name is not None:
        return name
    if dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
        raise TypeError(f"fp8_dtype is {dtype}, not torch.float8_e4m3fn or float8_e5m2; other grids "
                        "are formats by name: format='altgrad.e3m4'")
    return FORMATS[dtype]


def _words(grid, reference, storage):
    """The complete storage; raises ValueError or altgrad.Error where it cannot be compiled for a float32 parameter."""
    check_streams(storage, "altgrad.optim.GridOptim", GridOptim._keys, keys=GridOptim._keys)
    given = in_rule_names(storage, GridOptim._keys)
    for name in ("param", "master", "rungs"):
        if name in given:
            raise ValueError(f"storage says {name}={given[name]}: leave it out, for the parameter's dtype says how it "
                             "is stored, and fp8_dtype or format on which grid it is")
    words = Storage({"states": "f32", "rungs": f"{grid},reference" if reference else grid}) | given
    rule = find_template("gridoptim")
    compile_sets([set_line(rule, (), {"param": "f32", "grad": "f32", "step": "f32", **words})], [rule])
    return words
