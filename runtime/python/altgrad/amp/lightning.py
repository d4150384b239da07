"""Lightning's Trainer with the whole mixed-precision step in the optimizer's program.

    from altgrad.amp.lightning import FusedPrecision, StepStatistics
    trainer = Trainer(plugins=[FusedPrecision(AmpConfig.auto())], gradient_clip_val=1.0,
                      callbacks=[StepStatistics()])

This module imports the package `lightning`; altgrad does not import this module.
"""

import math
import weakref
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.utilities import GradClipAlgorithmType
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.amp.grad_scaler import OptState

from .._binding.group_rules import BOUND
from ..optim import Optimizer
from ..optim._record import scale_of
from ._config import AmpConfig


class FusedPrecision(MixedPrecision):
    """Lightning's precision plugin: autocast, loss scale and clipping, within the step of altgrad's optimizers.

    `gradient_clip_val` becomes `max_grad_norm` of an altgrad optimizer, and the scaler's scale and `found_inf` are
    handed to it (`fused_amp`): gradients are neither unscaled nor clipped in passes of their own, and
    hooks before the step see them scaled. Clipping by value is a pass of its own, and so is all clipping for
    torch's optimizers, fused ones included. Other optimizers are stepped as Lightning steps them.

    Args:
        config: An AmpConfig; None is AmpConfig.auto().
        scaler: A scaler with the methods of torch.amp.GradScaler, used for float16 instead of `config.scaler()`.

    Raises:
        TypeError: `config` is no AmpConfig.
        MisconfigurationException: A scaler is given, and the dtype is not float16.

    Example:
        >>> trainer = Trainer(plugins=[FusedPrecision(AmpConfig.auto())], gradient_clip_val=1.0)
    """

    config: AmpConfig
    precision: str  # type: ignore[assignment]

    def __init__(self, config: AmpConfig | None = None, scaler: torch.amp.GradScaler | None = None) -> None:
        self.config = config = AmpConfig.auto() if config is None else config
        if not isinstance(config, AmpConfig):
            raise TypeError(f"FusedPrecision: config is an AmpConfig or None, not {config!r}")
        half = config.dtype == torch.float16
        if scaler is not None and not half:
            raise MisconfigurationException(f"FusedPrecision: {config.precision} has no loss scale; a scaler "
                                            f"was given: {type(scaler).__name__}")
        if scaler is None and half:
            scaler = config.scaler()
        super().__init__("16-mixed" if half else "bf16-mixed", config.device_type, scaler)
        self.precision = config.precision
        vars(self).update(_no_optimizers())

    def __getstate__(self) -> dict[str, Any]:
        """The state without optimizers, because another process has its own."""
        return {**self.__dict__, **_no_optimizers()}

    def autocast_context_manager(self) -> torch.autocast:
        """torch.autocast of the config."""
        return self.config.autocast(cache_enabled=False)

    def connect(self, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer],
                lr_schedulers: list[Any]) -> tuple[torch.nn.Module, list[torch.optim.Optimizer], list[Any]]:
        """Remembers the optimizers and their bounds, before a checkpoint is loaded into them."""
        kinds = {param.device.type for param in model.parameters()}
        if kinds and self.device not in kinds:
            raise MisconfigurationException(f"FusedPrecision: its config is for {self.device}, the model is on "
                                            f"{', '.join(kinds)}; pass AmpConfig.auto({sorted(kinds)})")
        self._optimizers = list(optimizers)
        fused = [optimizer for optimizer in optimizers if isinstance(optimizer, Optimizer)]
        self._chosen = {optimizer: optimizer.max_grad_norm for optimizer in fused
                        if optimizer.max_grad_norm is not None and not _is_trainers(optimizer)}
        self._clipped.clear()
        for optimizer in fused:
            optimizer.fused_amp = self.scaler is not None
        return super().connect(model, optimizers, lr_schedulers)

    def clip_gradients(self, optimizer: torch.optim.Optimizer, clip_val: int | float | None = 0.0,
                       gradient_clip_algorithm: GradClipAlgorithmType = GradClipAlgorithmType.NORM) -> None:
        """Clips within the next step of an altgrad optimizer, and at once for any other."""
        # What a module has from self.optimizers() is a wrapper.
        if isinstance(optimizer, LightningOptimizer):
            optimizer = optimizer.optimizer
        if not clip_val or clip_val <= 0:
            return
        if isinstance(optimizer, Optimizer) and gradient_clip_algorithm == GradClipAlgorithmType.NORM:
            chosen = self._chosen.get(optimizer, clip_val)
            if chosen != clip_val:
                raise MisconfigurationException(
                    f"the Trainer is to clip gradients to {clip_val}, and {type(optimizer).__name__} was made with "
                    f"max_grad_norm={chosen}; give one of the two")
            self._clipped.add(optimizer)
            if optimizer not in self._chosen:
                _bound(optimizer, clip_val)
            return
        if optimizer in self._clipped:
            raise MisconfigurationException(
                f"the gradients of {type(optimizer).__name__} cannot be clipped by value after they were to be clipped "
                "by norm, because the optimizer's step clips by norm; clip by value first")
        if (self.scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False)
                and not _is_unscaled(self.scaler, optimizer)):
            self.scaler.unscale_(optimizer)
        Precision.clip_gradients(self, optimizer, clip_val, gradient_clip_algorithm)

    def _after_closure(self, model, optimizer):
        super()._after_closure(model, optimizer)
        if isinstance(optimizer, Optimizer) and _is_trainers(optimizer) and optimizer not in self._clipped:
            # A configure_gradient_clipping that does not clip every step.
            _bound(optimizer, math.inf)
        self._clipped.discard(optimizer)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Leaves out the bounds that the Trainer has set, because a resumed Trainer may have another or none."""
        for optimizer, state in zip(self._optimizers, checkpoint.get("optimizer_states", ())):
            if isinstance(optimizer, Optimizer) and _is_trainers(optimizer):
                for group in state["param_groups"]:
                    group.pop(BOUND, None)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Takes the scale from a checkpoint of Lightning's own plugin."""
        other_state = checkpoint.get(MixedPrecision.__qualname__)
        if other_state and type(self).__qualname__ not in checkpoint:
            self.load_state_dict(other_state)


def _no_optimizers():
    """The Trainer's optimizers; of these whose bound the user chose, and those clipped since their last step."""
    return dict(_optimizers=[], _chosen={}, _clipped=set())


# The bounds that a Trainer has set, by optimizer: the next one may have another plugin.
_bounds = weakref.WeakKeyDictionary()


def _bound(optimizer, bound):
    _bounds[optimizer] = bound
    if optimizer.max_grad_norm != bound:
        optimizer.max_grad_norm = bound


def _is_trainers(optimizer):
    """Whether the optimizer's bound is still the one that a Trainer has set."""
    return optimizer in _bounds and optimizer.max_grad_norm == _bounds[optimizer]


def _is_unscaled(scaler, optimizer):
    states = getattr(scaler, "_per_optimizer_states", {})
    return id(optimizer) in states and states[id(optimizer)]["stage"] is not OptState.READY


# Of the summary: the first two are the Trainer's step and "skipped_steps".
_LOGGED_OTHERWISE = "steps", "skipped", "clipped_steps"


class StepStatistics(Callback):
    """Logs the norm of the gradients before clipping, the loss scale and how many steps were skipped.

    The names are `prefix` and "grad_norm", "loss_scale", "skipped_steps"; with several optimizers
    their index follows. Tensors stay where they lie; a GPU is not waited for. What is not
    known is not logged: a norm without clipping, a scale without float16, the skipped steps
    of an optimizer that a scaler skips without calling it.

    Of an optimizer that was made with `statistics=True`, what `Statistics.summary` gives is logged, too.

    Args:
        prefix: What the names begin with.
        per_tensor: Whether the statistics of every parameter are logged, as "ratio/" and the parameter's name.

    Example:
        >>> trainer = Trainer(callbacks=[StepStatistics()])
    """

    def __init__(self, prefix: str = "altgrad/", per_tensor: bool = False) -> None:
        self.prefix: str = prefix
        self.per_tensor: bool = per_tensor
        # Of each optimizer: what was skipped in earlier fits or is counted here, and what it had counted itself before.
        self._skipped, self._before = [], []
        self._optimizers, self._hooks, self._logged = [], [], 0

    @property
    def skipped(self) -> list[torch.Tensor]:
        """How many steps of each optimizer were skipped, 0-dim tensors."""
        counts = list(self._skipped)
        for index, (optimizer, before) in enumerate(zip(self._optimizers, self._before)):
            counts[index] = counts[index] + (_counted(optimizer) - before)
        return counts

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begins to count the steps of the Trainer's optimizers."""
        self._optimizers, self._logged = list(trainer.optimizers), trainer.global_step
        self._before = list(map(_counted, self._optimizers))
        self._skipped += [torch.zeros((), dtype=torch.float32, device="cpu")] * (len(self._optimizers) - len(self._skipped))
        for index, optimizer in enumerate(self._optimizers):
            self._hooks.append(optimizer.register_step_post_hook(
                lambda optimizer, *_, index=index: self._count(index, optimizer)))

    def _count(self, index, optimizer):
        found = getattr(optimizer, "found_inf", None)
        if found is not None and not hasattr(optimizer, "skipped_steps"):
            self._skipped[index] = self._skipped[index].to(found.device) + (found != 0)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Logs after a step; a batch whose gradients are accumulated logs nothing."""
        if trainer.global_step == self._logged:
            return
        self._logged = trainer.global_step
        scaler, skipped = getattr(trainer.precision_plugin, "scaler", None), self.skipped
        for index, optimizer in enumerate(trainer.optimizers):
            values = {"grad_norm": getattr(optimizer, "grad_norm", None)}
            if scaler is not None:
                values["loss_scale"] = scale_of(scaler)
                if getattr(optimizer, "_step_supports_amp_scaling", False):
                    values["skipped_steps"] = skipped[index]
            if isinstance(optimizer, Optimizer) and optimizer._measures:
                values |= self._statistics_of(optimizer, pl_module, values)
            suffix = f"_{index}" if len(trainer.optimizers) > 1 else ""
            for name, value in values.items():
                if value is not None:
                    pl_module.log(f"{self.prefix}{name}{suffix}", value)

    def _statistics_of(self, optimizer, pl_module, known):
        stats = optimizer.statistics()
        values = {name: value for name, value in stats.summary().items()
                  if known.get(name) is None and name not in _LOGGED_OTHERWISE}
        if self.per_tensor:
            names = {id(param): name for name, param in pl_module.named_parameters()}
            params = [param for group in optimizer.param_groups for param in group["params"]]
            for key in stats.columns:
                values |= {f"{key}/{names[id(param)]}": value for param, value in zip(params, getattr(stats, key))
                           if id(param) in names}
        return values

    def on_train_end(self, *_: Any) -> None:
        """Stops counting."""
        self._skipped, self._optimizers, self._before = self.skipped, [], []
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    on_exception = on_train_end

    def state_dict(self) -> dict[str, Any]:
        """The counts, for a checkpoint."""
        return {"skipped": [count.item() for count in self.skipped]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from the counts of a checkpoint."""
        self._skipped = [torch.tensor(float(count), dtype=torch.float32, device="cpu") for count in state_dict["skipped"]]


def _counted(optimizer):
    """The skipped steps of an optimizer of ours, which counts them itself."""
    return getattr(optimizer, "skipped_steps", 0)
