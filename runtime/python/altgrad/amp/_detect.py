"""What a job's devices can do with bfloat16. `AmpConfig.auto()` asks all of this at once.

`devices` are torch devices or their names; None is every visible GPU, or the CPU where
there is none. The weakest device decides. `query` answers for the devices in place of torch.
"""

from typing import NamedTuple

import torch

from .._precision import choose
from ._devices import Devices, TorchDevices, choose_for, job_devices


class Bf16Capability(NamedTuple):
    """What `get_bf16_capability` found out about the weakest device of a job.

    Attributes:
        supported: Whether it computes in bfloat16 natively.
        reason: Why, in words.
        gpu_name: The name of an NVIDIA GPU, else "Unknown".
        compute_capability: The compute capability of an NVIDIA GPU, else (0, 0).
    """

    supported: bool
    reason: str
    gpu_name: str = "Unknown"
    compute_capability: tuple[int, int] = (0, 0)


def get_bf16_capability(devices: Devices = None, query: TorchDevices | None = None) -> Bf16Capability:
    """What the devices of a job can do with bfloat16; `supported` means natively, not emulated.

    `AmpConfig.auto()` asks this and chooses a dtype. The arguments are those of `AmpConfig.auto`.

    Raises:
        ValueError: torch does not see a device, or `devices` is empty.

    Example:
        >>> altgrad.amp.get_bf16_capability().supported
    """
    choice = choose_for(devices, query)
    device = choice.device
    if device.type != "cuda":
        return Bf16Capability(choice.bf16, choice.why)
    return Bf16Capability(choice.bf16, choice.why, device.name, device.capability)


def detect_bf16_support(devices: Devices = None, query: TorchDevices | None = None) -> tuple[bool, str]:
    """(whether all devices of a job compute in bfloat16 natively, why).

    `AmpConfig.auto()` asks this and chooses a dtype. The arguments are those of `AmpConfig.auto`.
    """
    return get_bf16_capability(devices, query)[:2]


def get_optimal_dtype(devices: Devices = None, query: TorchDevices | None = None) -> torch.dtype:
    """The dtype for autocast on all devices of a job; torch.float32 means no autocast.

    It is `AmpConfig.auto().dtype`. The arguments are those of `AmpConfig.auto`.
    """
    return getattr(torch, choose_for(devices, query).format)


def get_amp_dtype_for_device(device: str | int | torch.device, query: TorchDevices | None = None) -> torch.dtype:
    """The dtype for autocast on one device; "cuda" is the current GPU.

    It is `AmpConfig.auto(device).dtype`.

    Args:
        device: A torch device or its name.
        query: Answers for the device in place of torch, for tests.
    """
    return get_optimal_dtype([device], query)


def print_bf16_status(devices: Devices = None, query: TorchDevices | None = None) -> None:
    """Prints a line for each device, and the choice for all, which is that of `AmpConfig.auto()`.

    The arguments are those of `AmpConfig.auto`.
    """
    for device in job_devices(devices, query):
        print(f"{device.place:<8} {choose(device)}")
    print(f"altgrad  {choose_for(devices, query)}")
