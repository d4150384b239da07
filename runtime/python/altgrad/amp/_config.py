"""The precision of a training run, chosen once: by the devices, or by the user."""

import logging
from dataclasses import dataclass, field

import torch

from ._devices import choose_for, job_devices
from ._scaler import GradScaler

_log = logging.getLogger("altgrad.amp")

# In Lightning's words.
_WORDS = {torch.float32: "32-true", torch.float16: "16-mixed", torch.bfloat16: "bf16-mixed"}


@dataclass(frozen=True)
class AmpConfig:
    """What autocast and the loss scale of a run are to be.

        amp = altgrad.amp.AmpConfig.auto()
        scaler = amp.scaler()
        with amp.autocast():
            loss = ...
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    One loop serves every dtype: without float16 the scaler passes through. Learning rate,
    eps and all else of an optimizer stay the user's. `auto` chooses by the devices; what is
    asked for by `force_...` or by the constructor is never replaced by something else.
    """

    dtype: torch.dtype
    device_type: str = "cpu"
    reason: str = field(default="asked for", compare=False)

    def __post_init__(self):
        if self.dtype not in _WORDS:
            raise ValueError(f"AmpConfig: dtype is {self.dtype!r}; it may be "
                             f"{', '.join(map(str, _WORDS))}")

    @classmethod
    def auto(cls, devices=None, *, query=None, process_group=None):
        """The best dtype that all devices of the job compute in natively; says it in one log line.

        `devices` are those of this process: torch devices or names, None for every visible
        GPU, or the CPU where there is none. Ranks on other machines are asked when a
        `process_group` is given; then all of its ranks have to call.
        """
        choice = choose_for(devices, query, process_group)
        return _said(cls(getattr(torch, choice.format), _kind(devices, query), choice.why))

    @classmethod
    def force_bf16(cls, devices=None, *, query=None, emulate=False):
        """bfloat16; RuntimeError where a device would emulate it, unless `emulate`."""
        choice = choose_for(devices, query)
        if not choice.bf16 and not emulate:
            raise RuntimeError(f"AmpConfig.force_bf16: {choice.why}, so torch would emulate bfloat16; "
                               "emulate=True accepts that, AmpConfig.auto() chooses another dtype")
        why = "asked for" if choice.bf16 else f"asked for and emulated, for {choice.why}"
        return _said(cls(torch.bfloat16, _kind(devices, query), why))

    @classmethod
    def force_fp16(cls, devices=None, *, query=None):
        """float16 with a loss scale, on any device."""
        return _said(cls(torch.float16, _kind(devices, query)))

    @classmethod
    def force_fp32(cls, devices=None, *, query=None):
        """float32: no autocast, no loss scale."""
        return _said(cls(torch.float32, _kind(devices, query)))

    @property
    def loss_scale(self):
        """"dynamic" for float16, else "none"."""
        return "dynamic" if self.dtype == torch.float16 else "none"

    @property
    def precision(self):
        """What Lightning calls it: "32-true", "16-mixed" or "bf16-mixed"."""
        return _WORDS[self.dtype]

    def autocast(self, device_type=None, **options):
        """torch.autocast in this dtype; float32 switches it off."""
        if self.dtype == torch.float32:
            return torch.autocast(device_type or self.device_type, enabled=False)
        return torch.autocast(device_type or self.device_type, dtype=self.dtype, **options)

    def scaler(self, **options):
        """A GradScaler that scales for float16 and otherwise passes through."""
        options.setdefault("enabled", self.dtype == torch.float16)
        return GradScaler(self.device_type, **options)


def _kind(devices, query):
    """The type of the device that autocast is for: a GPU's, where there is any."""
    kinds = [device.type for device in job_devices(devices, query)]
    return next((kind for kind in kinds if kind != "cpu"), "cpu")


def _said(config):
    _log.info("%s on %s: %s", config.precision, config.device_type, config.reason)
    return config
