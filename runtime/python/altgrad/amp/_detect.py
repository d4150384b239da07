"""What a job's devices can do with bfloat16.

`devices` are torch devices or their names; None is every visible GPU, or the CPU where
there is none. The weakest decides. `query` answers for the devices instead of torch.
"""

from typing import NamedTuple

import torch

from .._precision import choose
from ._devices import choose_for, job_devices


class Bf16Capability(NamedTuple):
    """Of the weakest device; "Unknown" and (0, 0) where it is no NVIDIA GPU."""

    supported: bool
    reason: str
    gpu_name: str = "Unknown"
    compute_capability: tuple = (0, 0)


def get_bf16_capability(devices=None, query=None):
    """The Bf16Capability of a job; `supported` means computed natively, not emulated."""
    choice = choose_for(devices, query)
    device = choice.device
    if device.type != "cuda":
        return Bf16Capability(choice.bf16, choice.why)
    return Bf16Capability(choice.bf16, choice.why, device.name, device.capability)


def detect_bf16_support(devices=None, query=None):
    """(whether all devices compute in bfloat16 natively, why)."""
    return get_bf16_capability(devices, query)[:2]


def get_optimal_dtype(devices=None, query=None):
    """The dtype for autocast on all of the devices; torch.float32 means none."""
    return getattr(torch, choose_for(devices, query).format)


def get_amp_dtype_for_device(device, query=None):
    """The dtype for autocast on one device; "cuda" is the current one."""
    return get_optimal_dtype([device], query)


def print_bf16_status(devices=None, query=None):
    """Prints a line for each device and the choice for all."""
    for device in job_devices(devices, query):
        print(f"{device.place:<8} {choose(device)}")
    print(f"altgrad  {choose_for(devices, query)}")
