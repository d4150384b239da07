"""Where tensors lie, as torch and as the runtime call it: all that only a real device knows."""

import os
from contextlib import nullcontext
from functools import cache

import torch

# What the kernels are compiled for, by whether tensors lie in the host's memory.
_KINDS = ("cpu", "cuda")


@cache
def _stands_for():
    """What tensors of the CPU stand for in tests without a GPU ("cuda:0"); "cpu" elsewhere."""
    return os.environ.get("ALTGRAD_CPU_STANDS_FOR") or "cpu"


class Where:
    """One device: `name` as altgrad_plan_create has it, `on_host` whether kernels run on the CPU."""

    def __init__(self, device):
        self.device = device
        self.name = _stands_for() if device.type == "cpu" else f"cuda:{device.index}"
        self.on_host = self.name == "cpu"

    def guard(self):
        """Makes the device the current one of torch in a `with`."""
        return nullcontext() if self.device.type == "cpu" else torch.cuda.device(self.device)

    def stream(self):
        """The address of torch's current stream of the device; None for the driver's default."""
        if self.device.type == "cpu":
            return None
        return torch.cuda.current_stream(self.device).cuda_stream

    def record(self, tensor):
        """Keeps a tensor's memory for itself until the current stream is done with it."""
        if self.device.type != "cpu":
            tensor.record_stream(torch.cuda.current_stream(self.device))

    def is_capturing(self):
        """Whether what is done now is captured into a graph."""
        return self.device.type != "cpu" and torch.cuda.is_current_stream_capturing()


def is_known(device):
    """Whether kernels are made for tensors on this device."""
    return device.type in _KINDS


def stays_on_device(value):
    """Whether a number lies in a tensor that the host would have to wait for."""
    return isinstance(value, torch.Tensor) and (value.device.type != "cpu" or _stands_for() != "cpu")


def in_turn(devices):
    """Devices in the order in which they step: GPUs first, which work while the CPU does."""
    return sorted(set(devices), key=lambda device: (device.type == "cpu", device.index or 0))
