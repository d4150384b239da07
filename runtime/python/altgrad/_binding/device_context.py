"""The device of tensors, by the names of torch and of the runtime."""

from contextlib import nullcontext

import torch

from .._library import library
from .cuda_memory import use_torch_memory


_LARGE = 4 << 20  # the runtime asks for nothing below it


# The type of a device that is taken for CUDA's; tests without a GPU set it.
cuda_stand_in = ""


def is_host(device):
    """Whether kernels for tensors on this device run on the CPU."""
    return device.type == "cpu" != cuda_stand_in


class DeviceContext:
    """One device: `name` as altgrad_plan_create has it, `on_host` whether kernels run on the CPU."""

    def __init__(self, device):
        self.device = device
        self.on_host = is_host(device)
        self.name = "cpu" if self.on_host else f"cuda:{device.index or 0}"
        self._torch = None if device.type == "cpu" else torch.get_device_module(device)
        if self._torch and not self.on_host:
            use_torch_memory(device.type)

    def guard(self):
        """Makes the device the current one of torch in a `with`."""
        return self._torch.device(self.device) if self._torch else nullcontext()

    def stream(self):
        """The address of torch's current stream of the device; None for the driver's default."""
        return self._torch.current_stream(self.device).cuda_stream if self._torch else None

    def record(self, tensors):
        """Keeps the memory of tensors for them until the current stream is done with it."""
        if self._torch:
            stream = self._torch.current_stream(self.device)
            for tensor in tensors:
                tensor.record_stream(stream)

    def is_capturing(self):
        """Whether a CUDA graph is being captured. Raises in a child of fork, where torch's error does not say why."""
        if not self._torch:
            return False
        if self._torch._is_in_bad_fork():
            raise RuntimeError("this process was forked after CUDA was started, and has none; start workers with spawn, "
                               "or use CUDA in them only")
        return self._torch.is_current_stream_capturing()


def is_known(device):
    """Whether kernels are made for tensors on this device. torch for ROCm calls its GPUs cuda, too."""
    return device.type in ("cpu", cuda_stand_in) or device.type == "cuda" and torch.version.hip is None


def stays_on_device(value):
    """Whether a number is a tensor on a device, so that reading it would make the host wait."""
    return isinstance(value, torch.Tensor) and not is_host(value.device)


def on_device_of(word, other):
    """A word on the device of another one; the CPU waits for it."""
    return word.to(other.device, non_blocking=other.device.type != "cpu")


def storages(tensors):
    """The storages of tensors; keeping them keeps the memory alive, and not the tensors."""
    return [tensor.untyped_storage() for tensor in tensors if tensor is not None]


def in_turn(devices):
    """Devices in the order in which they step: GPUs first, because they work while the CPU does its part."""
    return sorted(set(devices), key=lambda device: (device.type == "cpu", device.index or 0))


def unwritten(tensor):
    """The same new tensor; on the CPU its memory is in huge pages, if the system has them."""
    if tensor.nbytes >= _LARGE and tensor.device.type == "cpu":
        library().altgrad_prefer_huge_pages(tensor.data_ptr(), tensor.nbytes)
    return tensor


def number_of(value):
    """A step-wide number: a float, or the tensor on whose device it is to be read."""
    return value if stays_on_device(value) else float(value)
