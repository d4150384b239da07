"""The numbers of a loss scaler on one device, in the memory that compiled steps read and write."""

import ctypes

import torch
from torch.autograd.graph import increment_version

from .._bundle import compile_sets
from .._plan import Plan
from ..optim._where import Where

# Each number has 8 bytes. The first four become the second four when the scale is
# updated: so the last of those is always 0.
_NOW = "grad_scale", "growth_tracker", "hysteresis_tracker", "found"
_NEXT = "next_scale", "next_growth_tracker", "next_hysteresis_tracker", "zero"
_FACTORS = "growth_factor", "backoff_factor", "min_scale", "max_scale"
_COUNTS = "growth_interval", "hysteresis"
_ORDER = {key: place for place, key in enumerate(_NOW + _NEXT + _FACTORS + _COUNTS)}
_FLOATS = "grad_scale", "next_scale", "found"


class Cells:
    """A loss scaler's numbers on `device`; `at[key]` is one, a 0-dim tensor.

    Keys are those that `altgrad-opt --loss-scaler` gives the arguments of a step:
    `grad_scale`, `found` float32, trackers and `_COUNTS` int64, `_FACTORS` float64.
    `growth_tracker` is also there as torch's kernels take it, in `torch_tracker`.
    """

    def __init__(self, device, variant):
        self.where, self._variant, self._plan = Where(device), variant, None
        self._settings = self._ahead_of = self._followed = None
        # Whoever makes a step under inference mode updates the scale outside of it.
        with torch.inference_mode(False):
            self._memory = torch.zeros(len(_ORDER), dtype=torch.float64, device=device)
            halves, whole = self._memory.view(torch.float32), self._memory.view(torch.int64)
            self.at = {key: halves[2 * place] if key in _FLOATS
                       else self._memory[place] if key in _FACTORS else whole[place]
                       for key, place in _ORDER.items()}
            # A graph that has the scale is not disturbed by factors, which a step may write.
            self.at.update({key: self.at[key].data for key in _FACTORS + _COUNTS})
            # x86 and GPUs store the low half of an int64 first, and no tracker needs another.
            self.torch_tracker = self._memory.view(torch.int32)[2 * _ORDER["growth_tracker"]]
        # The same memory without torch, whose operators take long when a step has emptied the caches.
        begin = self._memory.data_ptr()
        self._halves = begin, begin + 8 * len(_NOW)
        self._scale = ctypes.c_float.from_address(begin) if self.where.on_host else None

    @torch.no_grad()
    def set(self, **numbers):
        """Writes numbers by their keys."""
        for key, value in numbers.items():
            self.at[key].fill_(value)

    def take_settings(self, settings):
        """Writes factors and counts, a dict, where they are others than the last time."""
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
        """Whether nobody has written a number or a setting since then."""
        return self._ahead_of == self._version()

    def scale(self):
        """The scale: a number, or the tensor on a device that nobody waits for."""
        return self._scale.value if self._scale is not None else self.at["grad_scale"]

    @torch.no_grad()
    def advance(self):
        """Makes the next numbers the current ones, and forgets what was found."""
        count = len(_NOW)
        if self._scale is not None:
            ctypes.memmove(*self._halves, 8 * count)
            increment_version(self._memory)
        else:
            self._memory[:count].copy_(self._memory[count:2 * count])

    @torch.no_grad()
    def follow(self, other, forget=False):
        """Takes the current numbers of another device, where they have changed; `forget` what
        was found."""
        if forget or self._followed != other._version():
            count = len(_NOW) - (not forget)
            self._memory[:count].copy_(other._memory[:count], non_blocking=True)
            self._followed = other._version()

    @torch.no_grad()
    def compute_next(self, shares):
        """Computes the next numbers from `found` and what was found elsewhere, 0-dim tensors."""
        found = self.at["found"]
        for share in shares:
            found += share.to(found.device, non_blocking=found.device.type != "cpu")
        if self._plan is None:
            bundle = compile_sets([], [], scaler=self._variant, on_host=self.where.on_host)
            with self.where.guard():
                self._plan = Plan(bundle, self.where.name, threads=1)
                self._plan.bind_tensors([], 0)
                for scalar in bundle.singles:
                    self._plan.bind_scalar(scalar.name, [self.at[scalar.key].data_ptr()])
        with self.where.guard():
            self._plan.run(None, 0, stream=self.where.stream())
