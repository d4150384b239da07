"""torch.amp.GradScaler whose work is part of the optimizer's step."""

import ctypes
import math
from collections import defaultdict
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state

from .._binding.hooks import uncompiled
from .._binding.layout import is_dtensor, local_of
from .._binding.ranks import Ranks, ranks_of
from .._binding.shards import is_elsewhere
from ..optim import Optimizer
from ._scaler_state import ScalerState

VARIANTS = "torch", "boostr"


class GradScaler(torch.amp.GradScaler):
    """A loss scaler with the arguments of torch.amp.GradScaler, whose work is part of the optimizer's step.

    With an optimizer of altgrad.optim, `step` is one program: it unscales, checks, clips by `max_grad_norm`,
    updates or skips, and computes the next scale. It makes no pass over the gradients of its own and reads
    nothing back from the device. Gradients stay scaled, so `param.grad` after `step` is loss_scale times what
    torch's scaler leaves. `update` then takes the next scale over. With any other optimizer, and after
    `unscale_`, it does what torch does. Several optimizers, of either kind and on any devices, may share a
    scaler.

    A step whose scale is 0, negative or not finite is skipped.

    Args:
        device: The type of the device, "cuda" or "cpu".
        init_scale: The first scale, a positive number.
        growth_factor: The factor by which the scale grows.
        backoff_factor: The factor by which it falls.
        growth_interval: After how many steps in a row with finite gradients it grows.
        enabled: Whether it scales; if not, losses and steps pass through.
        min_scale: The scale does not fall below it when it changes.
        max_scale: The scale does not grow above it when it changes.
        hysteresis: The scale falls with the `hysteresis`-th step, since it last grew, that finds a gradient
            which is not finite (Megatron-LM's DynamicGradScaler). With 1 it falls with each one, as torch's.
        variant: "torch", or "boostr", which also grows where the count is beyond the interval, and lets
            the scale become infinite.

    Raises:
        ValueError: A number is no scale, factor, interval or limit.

    Example:
        >>> scaler = altgrad.amp.GradScaler("cuda")
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
    """

    _main = None  # the ScalerState in which the scale lives

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True, *,
                 min_scale: float = 0.0, max_scale: float = math.inf, hysteresis: int = 1,
                 variant: str = "torch") -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval,
                         enabled)
        self._used = set()
        if not self._enabled:
            return
        if variant not in VARIANTS:
            raise ValueError(f"variant is {variant!r}, not {' or '.join(VARIANTS)}")
        self._variant = variant
        self._init_scale = _scale_of(init_scale, "init_scale")
        self._hysteresis = self._init_left = _count_of(hysteresis, "hysteresis")
        _count_of(growth_interval, "growth_interval")
        self._min_scale, self._max_scale = _limits_of(min_scale, max_scale)

    # The numbers.

    @uncompiled
    def _lazy_init_scale_growth_tracker(self, dev):
        scaler_state = self._all_cells[dev] = ScalerState(dev, self._variant)
        scaler_state.set(grad_scale=self._init_scale, growth_tracker=self._init_growth_tracker,
                         hysteresis_tracker=self._init_left)
        self._main = scaler_state

    # torch's names. Some programs assign to them.

    @property
    def _scale(self):
        return self._main and self._main.at["grad_scale"]

    @_scale.setter
    def _scale(self, value):
        self._assign(grad_scale=value)

    @property
    def _growth_tracker(self):
        return self._main and self._main.torch_tracker

    @_growth_tracker.setter
    def _growth_tracker(self, value):
        self._assign(growth_tracker=value)

    def _assign(self, **numbers):
        if None in numbers.values():
            self._main, self._all_cells = None, {}
            return
        if self._main is None:
            self._lazy_init_scale_growth_tracker(*[value.device for value in numbers.values()])
        self._main.set(**numbers)

    def _state_on(self, device):
        """The numbers on a device, as this step needs them."""
        scaler_state = self._all_cells.get(device)
        if scaler_state is None:
            scaler_state = self._all_cells[device] = ScalerState(device, self._variant)
        if scaler_state is not self._main:
            scaler_state.follow(self._main)
        scaler_state.take_settings({
            "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "hysteresis": self._hysteresis,
            "min_scale": self._min_scale, "max_scale": self._max_scale})
        return scaler_state

    # Steps.

    @uncompiled
    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Steps an optimizer unless one of its gradients is not finite.

        Args:
            optimizer: Any optimizer of torch or altgrad.
            *args, **kwargs: Passed to its `step`. A closure is refused, as torch refuses it.

        Returns:
            What the optimizer's `step` returns.

        Raises:
            RuntimeError: A closure is given, or it is the second step before `update`.
        """
        if self._enabled and isinstance(getattr(optimizer, "local_optimizer", None), Optimizer):
            return optimizer.step(*args, grad_scaler=self, **kwargs)  # one of altgrad.distributed
        if not self._enabled or not isinstance(optimizer, Optimizer):
            return super().step(optimizer, *args, **kwargs)
        if any([of is not None for of in (*args, kwargs.pop("closure", None))]):
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        own = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.UNSCALED or own is not None or not _takes_scaler(type(optimizer)):
            result = self._step_checked(optimizer, state, own, kwargs)
        else:
            result = self._step_fused(optimizer, state, kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_checked(self, optimizer, state, own, kwargs):
        """Steps as torch's scaler does: the gradients have been checked, or were scaled once more."""
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
            own = self._scale * (1.0 if own is None else own)
        shares = [share.to(self._scale.device) for share in state["found_inf_per_device"].values()]
        found = sum(shares, torch.zeros_like(self._scale))
        if ranks := ranks_of(optimizer):  # whose scales stay the same, too
            found = ranks.worst(found).float()
            state["found_inf_per_device"] = {found.device: found}
        optimizer.grad_scale, optimizer.found_inf = own, found
        try:
            return optimizer.step(**kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    @torch.no_grad()
    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """As torch's; DTensors, whose meshes may be several, and plain tensors beside them are unscaled where they lie, and what
        is found on one rank is of all."""
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if not any(map(is_dtensor, params)):
            return super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        lists, found = {}, {}
        for grad in [local_of(param.grad) for param in params if param.grad is not None]:
            if not allow_fp16 and grad.dtype == torch.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            lists.setdefault((grad.device, grad.dtype), []).append(grad)
        for (device, _), grads in lists.items():
            flag = found.setdefault(device, found_inf.to(device, copy=True))
            torch._amp_foreach_non_finite_check_and_unscale_(grads, flag, inv_scale.to(device))
        every = Ranks([param.device_mesh for param in params if is_dtensor(param) and not is_elsewhere(param)]).worst(
            sum([flag.to(found_inf.device) for flag in found.values()], torch.zeros_like(found_inf)))
        return {found_inf.device: every.to(found_inf.dtype)}

    def _step_fused(self, optimizer, state, kwargs):
        self._flag = 0.0
        result = optimizer.step(**kwargs, scaler=self)
        if self._flag is not None:
            state["found_inf_per_device"] = {self._scale.device: torch.tensor(
                self._flag, dtype=torch.float32, device=self._scale.device)}
        return result

    # What an optimizer's step asks.

    def _begin_step(self):
        """(the scale for whatever is not stepped by kernels, a number or a tensor; the variant)."""
        return self._main.scale(), self._variant

    def _bind(self, tables):
        """Places the numbers where these tables find them."""
        for table in tables:
            scaler_state = self._state_on(table.context.device)
            if getattr(table, "scaler", None) is not scaler_state:
                table.bind_values([(index, scaler_state.at[scalar.key]) for index, scalar in enumerate(table.bundle.singles)
                                   if scalar.key in scaler_state.at and scalar.role in ("scale", "scaler")])
                table.scaler = scaler_state

    def _end_step(self, tables, flag):
        """Says that the kernels have run; `flag` is not 0 where the step was skipped."""
        self._flag = None if tables else flag  # a kernel has seen gradients, and says it in the numbers
        for table in tables:
            self._all_cells[table.context.device].stepped()
            self._used.add(table.context.device)

    @uncompiled
    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Takes over the next scale.

        Args:
            new_scale: A scale to use instead: a positive number, or a tensor of one element.

        Raises:
            AssertionError: No step has looked at gradients since the last update.
            ValueError: `new_scale` is not positive and finite.
        """
        if not self._enabled:
            return
        self._check_scale_growth_tracker("update")
        if new_scale is not None:
            tensor = isinstance(new_scale, torch.Tensor)
            super().update(new_scale if tensor else _scale_of(new_scale, "new_scale"))
            self._main.set(found=0.0)
        else:
            self._take_next()
        for scaler_state in self._all_cells.values():
            if scaler_state is not self._main:
                scaler_state.follow(self._main, forget=True)
        self._used = set()
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _take_next(self):
        shares = [share for state in self._per_optimizer_states.values()
                  for share in state["found_inf_per_device"].values()]
        if not shares and not self._used:
            raise AssertionError("No inf checks were recorded prior to update.")
        main = self._scale.device
        shares += [self._all_cells[device].at["found"] for device in self._used - {main}]
        scaler_state = self._state_on(main)
        if shares or not scaler_state.is_ahead():
            scaler_state.compute_next(shares)
        scaler_state.advance()

    # Files and copies.

    def state_dict(self) -> dict[str, Any]:
        """The entries of torch's scaler, which can load it, and those that torch does not have."""
        state = super().state_dict()
        if self._enabled:
            state.update(hysteresis=self._hysteresis, hysteresis_tracker=self._left(),
                         min_scale=self._min_scale, max_scale=self._max_scale)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state_dict of this class or of torch's. What torch's does not have stays as it is.

        Args:
            state_dict: What `state_dict()` of either class gave.

        Raises:
            ValueError: With the file's numbers every step would be skipped, or the scale would never grow.
        """
        if not self._enabled:
            return
        hysteresis = _count_of(state_dict.get("hysteresis", self._hysteresis), "hysteresis")
        left = state_dict.get("hysteresis_tracker", hysteresis)
        # Below 0 after more steps with infinities than `hysteresis`.
        if isinstance(left, str) or not left <= hysteresis or left != int(left):
            raise ValueError(f"the file's hysteresis_tracker is {left!r}, not a whole number of at most {hysteresis}")
        self._check_file(state_dict)
        limits = _limits_of(state_dict.get("min_scale", self._min_scale),
                            state_dict.get("max_scale", self._max_scale))
        super().load_state_dict(state_dict)
        self._hysteresis, self._init_left = hysteresis, int(left)
        self._min_scale, self._max_scale = limits
        if self._scale is not None:
            self._main.set(growth_tracker=self._init_growth_tracker,
                           hysteresis_tracker=self._init_left)

    def _check_file(self, file):
        """Raises ValueError for a file with which no step would ever be made, or none grow."""
        scale = file.get("scale", 1.0)
        # One of ours may have grown to infinity.
        if not (self._variant == "boostr" and scale == math.inf):
            _scale_of(scale, "the file's scale")
        _count_of(file.get("growth_interval", 1), "the file's growth_interval")
        if not file.get("_growth_tracker", 0) >= 0:
            raise ValueError(f"the file's _growth_tracker is {file['_growth_tracker']}, not a count")
        _check_factors(file.get("growth_factor", 2.0), file.get("backoff_factor", 0.5), "the file's ")

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps without an infinity in a row the scale grows.

        Args:
            new_interval: A whole number of at least 1.

        Raises:
            ValueError: It is not.
        """
        super().set_growth_interval(_count_of(new_interval, "growth_interval"))

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by when it grows.

        Args:
            new_factor: A finite number above 1.

        Raises:
            ValueError: It is not.
        """
        _check_factors(new_factor, 0.5)
        super().set_growth_factor(new_factor)

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by after an infinity.

        Args:
            new_factor: A number between 0 and 1.

        Raises:
            ValueError: It is not.
        """
        _check_factors(2.0, new_factor)
        super().set_backoff_factor(new_factor)

    def _left(self):
        return int(self._main.at["hysteresis_tracker"]) if self._scale is not None else self._init_left

    def __getstate__(self) -> dict[str, Any]:
        left = self._left() if self._enabled else None
        state = super().__getstate__()
        state.update(_all_cells={}, _used=set(), _main=None, _init_left=left)
        return state


@cache
def _takes_scaler(kind):
    """Whether the step of a class takes a scaler; a subclass may have one that does not."""
    return any([of.kind is of.VAR_KEYWORD or of.name == "scaler" for of in signature(kind.step).parameters.values()])


def _scale_of(value, name):
    number = ctypes.c_float(float(value)).value
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} is {value}, not a finite number above 0 in float32")
    return number


def _count_of(value, name):
    if not (1 <= value < 2**63 and int(value) == value):
        raise ValueError(f"{name} is {value}, not a whole number of at least 1")
    return int(value)


def _check_factors(growth, backoff, whose=""):
    if not 1.0 < growth < math.inf:
        raise ValueError(f"{whose}growth_factor is {growth}, not a finite number above 1")
    if not 0.0 < backoff < 1.0:
        raise ValueError(f"{whose}backoff_factor is {backoff}, not a number between 0 and 1")


def _limits_of(least, most):
    limits = float(least), float(most)
    if not 0.0 <= limits[0] <= limits[1] or limits[0] == math.inf:
        raise ValueError(f"min_scale is {least} and max_scale {most}; it has to be 0 <= min_scale <= max_scale, "
                         "and min_scale is finite")
    return limits
