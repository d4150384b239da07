"""Lightning's Trainer with the whole mixed-precision step in the optimizer's program.

    from altgrad.amp.lightning import FusedPrecision, StepStatistics
    trainer = Trainer(plugins=[FusedPrecision(AmpConfig.auto())], gradient_clip_val=1.0,
                      callbacks=[StepStatistics()])

This module imports the package `lightning`; altgrad does not import this module.
"""

import math
import weakref

import torch
from lightning.pytorch import Callback
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.utilities import GradClipAlgorithmType
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.amp.grad_scaler import OptState

from .._binding.kinds import BOUND
from ..optim import Optimizer
from ..optim._record import scale_of
from ._config import AmpConfig


class FusedPrecision(MixedPrecision):
    """Autocast, loss scale and clipping for altgrad's optimizers; for others as Lightning's.

    `config` is an AmpConfig, None for AmpConfig.auto(). `scaler` is used for float16 instead
    of `config.scaler()`; it has the methods of torch.amp.GradScaler.

    `gradient_clip_val` becomes `max_grad_norm` of an altgrad optimizer and the scaler's
    scale and verdict are handed to it (`fused_amp`): gradients are neither unscaled nor
    clipped in passes of their own, and hooks before the step see them scaled. Clipping by
    value is a pass, and so is all clipping for torch's optimizers, fused ones included.
    """

    def __init__(self, config=None, scaler=None):
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

    def __getstate__(self):
        """Without optimizers: those of another process are others."""
        return {**self.__dict__, **_no_optimizers()}

    def autocast_context_manager(self):
        """torch.autocast of the config."""
        return self.config.autocast(cache_enabled=False)

    def connect(self, model, optimizers, lr_schedulers):
        """Looks at the optimizers before a checkpoint is loaded into them."""
        kinds = {param.device.type for param in model.parameters()}
        if kinds and self.device not in kinds:
            raise MisconfigurationException(f"FusedPrecision: its config is for {self.device}, the model is on "
                                            f"{', '.join(kinds)}; pass AmpConfig.auto({sorted(kinds)})")
        self._optimizers = list(optimizers)
        ours = [optimizer for optimizer in optimizers if isinstance(optimizer, Optimizer)]
        self._chosen = {optimizer: optimizer.max_grad_norm for optimizer in ours
                        if optimizer.max_grad_norm is not None and not _is_trainers(optimizer)}
        self._clipped.clear()
        for optimizer in ours:
            optimizer.fused_amp = self.scaler is not None
        return super().connect(model, optimizers, lr_schedulers)

    def clip_gradients(self, optimizer, clip_val=0.0, gradient_clip_algorithm=GradClipAlgorithmType.NORM):
        """Clips in the next step of an altgrad optimizer, at once for any other."""
        # What a module has from self.optimizers() is a wrapper.
        if isinstance(optimizer, LightningOptimizer):
            optimizer = optimizer.optimizer
        if not clip_val or clip_val <= 0:
            return
        if isinstance(optimizer, Optimizer) and gradient_clip_algorithm == GradClipAlgorithmType.NORM:
            chosen = self._chosen.get(optimizer, clip_val)
            if chosen != clip_val:
                raise MisconfigurationException(
                    f"gradients are to be clipped to {clip_val}, and {type(optimizer).__name__} was made with "
                    f"max_grad_norm={chosen}; say one of them")
            self._clipped.add(optimizer)
            if optimizer not in self._chosen:
                _bound(optimizer, clip_val)
            return
        if optimizer in self._clipped:
            raise MisconfigurationException(
                f"the gradients of {type(optimizer).__name__} are clipped by value after they were to be clipped by "
                "norm, which its step does; clip by value first")
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

    def on_save_checkpoint(self, checkpoint):
        """Leaves out bounds that were not the user's: a resumed Trainer may have another or none."""
        for optimizer, state in zip(self._optimizers, checkpoint.get("optimizer_states", ())):
            if isinstance(optimizer, Optimizer) and _is_trainers(optimizer):
                for group in state["param_groups"]:
                    group.pop(BOUND, None)

    def on_load_checkpoint(self, checkpoint):
        """Takes the scale from a checkpoint of Lightning's own plugin."""
        theirs = checkpoint.get(MixedPrecision.__qualname__)
        if theirs and type(self).__qualname__ not in checkpoint:
            self.load_state_dict(theirs)


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
    """Whether nobody has set another bound since a Trainer did."""
    return optimizer in _bounds and optimizer.max_grad_norm == _bounds[optimizer]


def _is_unscaled(scaler, optimizer):
    states = getattr(scaler, "_per_optimizer_states", {})
    return id(optimizer) in states and states[id(optimizer)]["stage"] is not OptState.READY


# Of the summary: the first two are the Trainer's step and "skipped_steps".
_LOGGED_OTHERWISE = "steps", "skipped", "clipped_steps"


class StepStatistics(Callback):
    """Logs the norm of the gradients before clipping, the loss scale and how many steps were skipped.

    Names are `prefix` and "grad_norm", "loss_scale", "skipped_steps"; with several optimizers
    their index follows. Tensors stay where they lie: nobody waits for a GPU. What is not
    known is not logged: a norm without clipping, a scale without float16, the skipped steps
    of an optimizer that a scaler skips without calling it.

    An optimizer that was made with `statistics=True` has what `Statistics.summary` says logged, too, and with
    `per_tensor` the columns of its table: "ratio/" and the name of the parameter.
    """

    def __init__(self, prefix="altgrad/", per_tensor=False):
        self.prefix, self.per_tensor = prefix, per_tensor
        # Of each optimizer: what was skipped in earlier fits or is counted here, and what it had counted itself before.
        self._skipped, self._before = [], []
        self._optimizers, self._hooks, self._logged = [], [], 0

    @property
    def skipped(self):
        """[skipped steps of an optimizer], 0-dim tensors."""
        counts = list(self._skipped)
        for index, (optimizer, before) in enumerate(zip(self._optimizers, self._before)):
            counts[index] = counts[index] + (_counted(optimizer) - before)
        return counts

    def on_train_start(self, trainer, pl_module):
        self._optimizers, self._logged = list(trainer.optimizers), trainer.global_step
        self._before = list(map(_counted, self._optimizers))
        self._skipped += [torch.zeros(())] * (len(self._optimizers) - len(self._skipped))
        for index, optimizer in enumerate(self._optimizers):
            self._hooks.append(optimizer.register_step_post_hook(
                lambda optimizer, *_, index=index: self._count(index, optimizer)))

    def _count(self, index, optimizer):
        found = getattr(optimizer, "found_inf", None)
        if found is not None and not hasattr(optimizer, "skipped_steps"):
            self._skipped[index] = self._skipped[index].to(found.device) + (found != 0)

    def on_train_batch_end(self, trainer, pl_module, *_):
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
                values |= self._said_by(optimizer, pl_module, values)
            suffix = f"_{index}" if len(trainer.optimizers) > 1 else ""
            for name, value in values.items():
                if value is not None:
                    pl_module.log(f"{self.prefix}{name}{suffix}", value)

    def _said_by(self, optimizer, pl_module, known):
        said = optimizer.statistics()
        values = {name: value for name, value in said.summary().items()
                  if known.get(name) is None and name not in _LOGGED_OTHERWISE}
        if self.per_tensor:
            names = {id(param): name for name, param in pl_module.named_parameters()}
            params = [param for group in optimizer.param_groups for param in group["params"]]
            for key in said.columns:
                values |= {f"{key}/{names[id(param)]}": value for param, value in zip(params, getattr(said, key))
                           if id(param) in names}
        return values

    def on_train_end(self, *_):
        self._skipped, self._optimizers, self._before = self.skipped, [], []
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    on_exception = on_train_end

    def state_dict(self):
        return {"skipped": [count.item() for count in self.skipped]}

    def load_state_dict(self, state_dict):
        self._skipped = [torch.tensor(float(count)) for count in state_dict["skipped"]]


def _counted(optimizer):
    """The skipped steps of an optimizer of ours, which counts them itself."""
    return getattr(optimizer, "skipped_steps", 0)
