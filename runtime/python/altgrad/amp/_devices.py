"""The devices of a job, as torch sees them."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import torch

from .. import _cpu
from .._precision import Device, choose, weakest


Devices: TypeAlias = "str | int | torch.device | Iterable[str | int | torch.device] | None"


class TorchDevices:
    """Asks torch and the system about devices. A `query` may be any object with these methods.

    torch starts CUDA in this process when its GPUs are asked: do not fork afterwards.
    `is_bf16_supported` is not asked: it is true where torch emulates.
    """

    def __init__(self, cuda: Any = torch.cuda, hip: str | None = torch.version.hip) -> None:
        self._cuda, self._hip = cuda, hip

    def gpus(self) -> tuple[Device, ...]:
        """A Device for each visible GPU."""
        if not self._cuda.is_available():
            return ()
        return tuple(map(self._gpu, range(self._cuda.device_count())))

    def current(self) -> int:
        """The index of torch's current GPU."""
        return self._cuda.current_device()

    def cpu(self) -> Device:
        """The Device of the host. Nothing is known of a host that does not run Linux."""
        try:
            cpu = _cpu.read()
        except OSError:
            return Device("cpu")
        return Device("cpu", cpu.name, flags=cpu.flags)

    def _gpu(self, index):
        facts = self._cuda.get_device_properties(index)
        # ROCm's numbers are not NVIDIA's.
        arch = facts.gcnArchName.partition(":")[0] if self._hip else ""
        return Device(f"cuda:{index}", facts.name, (0, 0) if arch else (facts.major, facts.minor), arch)


def job_devices(devices, query):
    """The Devices that were named, or without names every visible GPU, or the CPU where there is none."""
    query = query or TorchDevices()
    if devices is None:
        return query.gpus() or (query.cpu(),)
    if isinstance(devices, (str, int, torch.device)):
        devices = [devices]
    return tuple(_find(torch.device(device), query) for device in devices)


def _find(device, query):
    if device.type == "cpu":
        return query.cpu()
    if device.type != "cuda":
        return Device(device.type)
    gpus = {gpu.place: gpu for gpu in query.gpus()}
    place = f"cuda:{device.index if device.index is not None or not gpus else query.current()}"
    if place not in gpus:
        raise ValueError(f"there is no device {device}: torch sees {', '.join(gpus) or 'no GPU'}")
    return gpus[place]


def choose_for(devices=None, query=None, process_group=None):
    """The Choice for these devices, over all ranks of a process group if one is given."""
    choices = [choose(device) for device in job_devices(devices, query)]
    if process_group is not None:
        import torch.distributed as dist
        shares = [None] * dist.get_world_size(process_group)
        dist.all_gather_object(shares, choices, group=process_group)
        choices = [choice for share in shares for choice in share]
    return weakest(choices)
