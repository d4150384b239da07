"""The numbers of a step: what kernels read of the groups and of the step, and what the step returns."""

import ctypes
import weakref
from array import array

import torch

from .._bundle import IN, OUT
from .._core import core, handle_of

# The types of altgrad.h: f64, i64, f32, i32, i1. Each value has a cell of 8 bytes.
SCALAR_DTYPES = (torch.float64, torch.int64, torch.float32, torch.int32, torch.bool)
_STEP = -1  # the library's index for the numbers of the whole step


class Values:
    """The numbers of the groups of a plan and of its steps, which the library keeps.

        Values(bundle, groups, where)

    `groups` has the set of each group of the plan, `context` is their DeviceContext. A number is on the host, from
    where the runtime brings it to the device; one that lies in a tensor of the device has its cell there, and so have
    results.
    """

    def __init__(self, bundle, groups, context):
        self._singles, groups, handle = bundle.singles, array("i", groups), ctypes.c_void_p()
        core().altgrad_core_values_create(bundle.handle, groups.buffer_info()[0], len(groups), ctypes.byref(handle))
        weakref.finalize(self, core().altgrad_core_values_free, handle).atexit = False
        self._handle, self._device = handle.value, None
        if not context.on_host:
            cells = self._cell(len(self._singles)) + 1
            self._device = torch.empty(cells, dtype=torch.float64, device=context.device)
            core().altgrad_core_values_use(handle, handle_of(self._device))
        self._held = {}  # (group, place in it) -> the tensor in which the number lies
        self._placed = set()

    def set_hypers(self, numbers, groups):
        """Writes hyper-parameters of these groups of the plan, each by its type."""
        numbers, groups = array("d", numbers), array("q", groups)
        core().altgrad_core_values_set(self._handle, groups.buffer_info()[0], len(groups), numbers.buffer_info()[0])
        if self._held:
            self._held = {place: tensor for place, tensor in self._held.items() if place[0] not in groups}

    def set_tensors(self, entries):
        """Takes (group, place, tensor) of hyper-parameters that lie on the device."""
        for group, place, value in entries:
            self._held[group, place] = value
            core().altgrad_core_values_take(self._handle, group, place, handle_of(value))

    def bind(self, entries):
        """Takes (index in `bundle.singles`, tensor) of step-wide values that lie, from now
        on, in memory of the plan's device, where the step reads and writes them."""
        for index, memory in entries:
            core().altgrad_core_values_bind(self._handle, index, handle_of(memory))
            self._held[_STEP, index] = memory
            self._placed.add(index)

    def memory_of(self, index):
        """The tensor in which a step-wide value lies that `bind` was given."""
        return self._held[_STEP, index]

    def give(self, scalars):
        """Sets the other values of the step by role: numbers, or tensors on the device."""
        for index, scalar in enumerate(self._singles):
            if scalar.access == OUT or index in self._placed:
                continue
            value = scalars[scalar.role]
            if self._device is not None and isinstance(value, torch.Tensor):
                self.set_tensors([(_STEP, index, value)])
            else:
                self._held.pop((_STEP, index), None)
                core().altgrad_core_values_give(self._handle, index, float(value))

    def send(self, plan):
        """Binds what is not bound to its cells yet, and queues copies of the tensors."""
        core().altgrad_core_values_send(self._handle, plan.handle)

    def _cell(self, index):
        return core().altgrad_core_values_cell(self._handle, _STEP, index)

    def _view(self, index):
        dtype = SCALAR_DTYPES[self._singles[index].type]
        return self._device.view(dtype)[self._cell(index) * 8 // dtype.itemsize]

    def memory(self):
        """The tensors on the device that the step reads and writes now."""
        return [*([] if self._device is None else [self._device]), *self._held.values()]

    def results(self):
        """{role: what the step says}: a number; a 0-dim tensor that the next step overwrites
        where it lies on another device."""
        return {scalar.role: core().altgrad_core_values_get(self._handle, _STEP, index) if self._device is None
                else self._view(index) for index, scalar in enumerate(self._singles)
                if scalar.access != IN and index not in self._placed}
