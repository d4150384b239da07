"""The numbers of a loss scaler on one device, in the memory that compiled steps read and write."""

import ctypes

import torch
from torch.autograd.graph import increment_version

from .._binding.values import SCALAR_DTYPES
from .._binding.device_context import DeviceContext
from .._bundle import compile_sets
from .._core import core
from .._plan import Plan


class ScalerState:
    """A loss scaler's numbers on `device`; `at[key]` is one, a 0-dim tensor.

    Keys and types are those that `altgrad-opt --loss-scaler` gives the arguments of a step, 8 bytes each.
    `growth_tracker` is also there as torch's kernels take it, in `torch_tracker`.
    """

    def __init__(self, device, variant):
        self.context, self._plan = DeviceContext(device), None
        self._settings = self._ahead_of = self._followed = None
        self._bundle = compile_sets([], scaler=variant, on_host=self.context.on_host)
        singles = self._bundle.singles
        places, now = (ctypes.c_int64 * len(singles))(), ctypes.c_int64()
        core().altgrad_core_scaler(self._bundle.handle, places, ctypes.byref(now))
        self._now = now.value
        # Whoever makes a step under inference mode updates the scale outside of it.
        with torch.inference_mode(False):
            self._memory = torch.zeros(len(singles) + 1, dtype=torch.float64, device=device)
            self.at = {}
            for place, single in zip(places, singles):
                dtype = SCALAR_DTYPES[single.type]
                cell = self._memory.view(dtype)[place * 8 // dtype.itemsize]
                # A graph that has the scale is not disturbed by factors, which a step may write.
                self.at[single.key] = cell if place < 2 * self._now else cell.data
            # x86 and GPUs store the low half of an int64 first, and no tracker needs another.
            self.torch_tracker = self.at["growth_tracker"].view(1).view(torch.int32)[0]

    @torch.no_grad()
    def set(self, **numbers):
        """Writes numbers by their keys."""
        for key, value in numbers.items():
            self.at[key].fill_(value)

    def take_settings(self, settings):
        """Writes factors and counts, a dict, where they have changed since the last time."""
        if settings != self._settings:
            self._settings = self._ahead_of = None
            self.set(**settings)
            self._settings = dict(settings)

    def _version(self):
        return self.at["grad_scale"]._version

    def stepped(self):
        """Says that a step has computed the next numbers of those that are here now."""
        self._ahead_of = self._version()

    def is_ahead(self):
        """Whether the next numbers are computed and no number or setting was written since."""
        return self._ahead_of == self._version()

    def scale(self):
        """The scale: a number on the CPU, else the tensor on the device."""
        scale = self.at["grad_scale"]
        # torch's operators take long when a step has emptied the caches.
        return ctypes.c_float.from_address(scale.data_ptr()).value if self.context.on_host else scale

    def advance(self):
        """Makes the next numbers the current ones, and forgets what was found."""
        count = self._now
        if self.context.on_host:
            begin = self._memory.data_ptr()
            ctypes.memmove(begin, begin + 8 * count, 8 * count)
            increment_version(self._memory)
        else:
            with torch.no_grad():
                self._memory[:count].copy_(self._memory[count:2 * count])

    @torch.no_grad()
    def follow(self, other, forget=False):
        """Takes the current numbers of another device, where they have changed; `forget` what
        was found."""
        if forget or self._followed != other._version():
            count = self._now - (not forget)
            self._memory[:count].copy_(other._memory[:count], non_blocking=True)
            self._followed = other._version()

    @torch.no_grad()
    def compute_next(self, shares):
        """Computes the next numbers from `found` and what was found elsewhere, 0-dim tensors."""
        found = self.at["found"]
        for share in shares:
            found += share.to(found.device, non_blocking=found.device.type != "cpu")
        if self._plan is None:
            with self.context.guard():
                self._plan = Plan(self._bundle, self.context.name, threads=1)
                self._plan.bind_tensors([], 0)
                for scalar in self._bundle.singles:
                    self._plan.bind_scalar(scalar.name, [self.at[scalar.key].data_ptr()])
        with self.context.guard():
            self._plan.run(None, 0, stream=self.context.stream())
