"""The precision of a training run, chosen once: by the devices, or by the user."""

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ._devices import Devices, TorchDevices, choose_for, job_devices
from ._scaler import GradScaler

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_log = logging.getLogger("altgrad.amp")

# In Lightning's words.
_WORDS = {torch.float32: "32-true", torch.float16: "16-mixed", torch.bfloat16: "bf16-mixed"}


@dataclass(frozen=True)
class AmpConfig:
    """The precision of a training run: what autocast and the loss scale are to be.

    One loop serves every dtype, because the scaler passes everything through where the dtype is not float16.
    Learning rate, eps and all else of an optimizer stay the user's. `auto` chooses by the devices. What is
    asked for, by `force_...` or by the constructor, is never replaced by something else.

    Args:
        dtype: torch.float32, torch.float16 or torch.bfloat16.
        device_type: The type of the device that autocast is for, "cpu" or "cuda".
        reason: Why this dtype was chosen.

    Raises:
        ValueError: `dtype` is another one.

    Example:
        >>> amp = altgrad.amp.AmpConfig.auto()
        >>> scaler = amp.scaler()
        >>> with amp.autocast():
        ...     loss = loss_of(model(x), y)
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
    """

    dtype: torch.dtype
    device_type: str = "cpu"
    reason: str = field(default="asked for", compare=False)

    def __post_init__(self) -> None:
        if self.dtype not in _WORDS:
            raise ValueError(f"AmpConfig: dtype is {self.dtype!r}; it may be "
                             f"{', '.join(map(str, _WORDS))}")

    @classmethod
    def auto(cls, devices: Devices = None, *, query: TorchDevices | None = None,
             process_group: "ProcessGroup | None" = None) -> "AmpConfig":
        """The best dtype that all devices of the job compute in natively.

        One line of the logger "altgrad.amp" says which and why.

        Args:
            devices: The devices of this process: torch devices or their names. None is every visible GPU, or
                the CPU where there is none.
            query: Answers for the devices in place of torch, for tests.
            process_group: The torch.distributed group whose ranks, perhaps on other machines, are asked, too.
                All of them have to call.

        Returns:
            bfloat16 for NVIDIA GPUs from capability 8.0, for AMD GPUs with bfloat16 units and for CPUs with AVX-512
            BF16 or AMX; float16 for capability 7.x and other AMD GPUs; float32 otherwise. The weakest device
            decides.

        Raises:
            ValueError: torch does not see a device, or `devices` is empty.
        """
        choice = choose_for(devices, query, process_group)
        return _logged(cls(getattr(torch, choice.format), _kind(devices, query), choice.why))

    @classmethod
    def force_bf16(cls, devices: Devices = None, *, query: TorchDevices | None = None,
                   emulate: bool = False) -> "AmpConfig":
        """bfloat16, whatever is fastest.

        Args:
            devices: As in `auto`.
            query: As in `auto`.
            emulate: Whether a device may emulate it.

        Raises:
            RuntimeError: A device has no bfloat16 of its own, and `emulate` is False.
        """
        choice = choose_for(devices, query)
        if not choice.bf16 and not emulate:
            raise RuntimeError(f"AmpConfig.force_bf16: {choice.why}, so torch would emulate bfloat16; "
                               "emulate=True accepts that, AmpConfig.auto() chooses another dtype")
        why = "asked for" if choice.bf16 else f"asked for and emulated, for {choice.why}"
        return _logged(cls(torch.bfloat16, _kind(devices, query), why))

    @classmethod
    def force_fp16(cls, devices: Devices = None, *, query: TorchDevices | None = None) -> "AmpConfig":
        """float16 with a loss scale, on any device. The arguments are those of `auto`."""
        return _logged(cls(torch.float16, _kind(devices, query)))

    @classmethod
    def force_fp32(cls, devices: Devices = None, *, query: TorchDevices | None = None) -> "AmpConfig":
        """float32, without autocast and loss scale. The arguments are those of `auto`."""
        return _logged(cls(torch.float32, _kind(devices, query)))

    @property
    def loss_scale(self) -> str:
        """"dynamic" for float16, else "none"."""
        return "dynamic" if self.dtype == torch.float16 else "none"

    @property
    def precision(self) -> str:
        """What Lightning calls it: "32-true", "16-mixed" or "bf16-mixed"."""
        return _WORDS[self.dtype]

    def autocast(self, device_type: str | None = None, **options: Any) -> torch.autocast:
        """torch.autocast in this dtype, a context manager; with float32 it is switched off.

        Args:
            device_type: Another type of device than the config's.
            **options: Further arguments of torch.autocast, such as `cache_enabled`.
        """
        if self.dtype == torch.float32:
            return torch.autocast(device_type or self.device_type, enabled=False)
        return torch.autocast(device_type or self.device_type, dtype=self.dtype, **options)

    def scaler(self, **options: Any) -> GradScaler:
        """A GradScaler that scales with float16 and passes everything through with other dtypes.

        Args:
            **options: Further arguments of GradScaler, such as `init_scale`.
        """
        options.setdefault("enabled", self.dtype == torch.float16)
        return GradScaler(self.device_type, **options)


def _kind(devices, query):
    """The type of the device that autocast is for: a GPU's, where there is any."""
    kinds = [device.type for device in job_devices(devices, query)]
    return next((kind for kind in kinds if kind != "cpu"), "cpu")


def _logged(config):
    _log.info("%s on %s: %s", config.precision, config.device_type, config.reason)
    return config
