"""The numbers of a step: what kernels read of the groups and of the step, and what the step returns."""

import ctypes
import struct

import torch

from .._bundle import HISTORY, IN, OUT

_CELL = 8
# The types of altgrad.h: f64, i64, f32, i32, i1. Each value has a cell of 8 bytes.
_PACKED = ("d", "q", "f4x", "i4x", "?7x")
SCALAR_DTYPES = (torch.float64, torch.int64, torch.float32, torch.int32, torch.bool)
_WHOLE = (1, 3, 4)


class Values:
    """Cells of 8 bytes, as runtime/torch/table/Values.h describes them.

        Values(bundle, groups, where)

    `groups` has the set of each group of the plan, `where` is their Where. A number has a
    cell on the host, which the runtime brings to the device; one that lies in a tensor of
    the device has its cell there, and so have results.
    """

    def __init__(self, bundle, groups, where):
        self._bundle, self._groups, self._where = bundle, groups, where
        kinds = [[scalar.type for scalar in part.hypers] for part in bundle.sets]
        packers = [struct.Struct("=" + "".join([_PACKED[kind] for kind in of])) for of in kinds]
        whole = [[place for place, kind in enumerate(of) if kind in _WHOLE] for of in kinds]
        self._writers, size = [], 0
        for index in groups:
            self._writers.append((size, packers[index], whole[index], len(kinds[index])))
            size += packers[index].size
        self._singles = [(scalar, struct.Struct("=" + _PACKED[scalar.type]), size + _CELL * place)
                         for place, scalar in enumerate(bundle.singles)]
        # One cell more, so that the address of a last group without values lies in the memory.
        self._size = size + _CELL * len(bundle.singles) + _CELL
        self._host = ctypes.create_string_buffer(self._size)
        self._device = None if where.on_host else torch.empty(
            self._size // _CELL, dtype=torch.float64, device=where.device)
        self._sources, self._bound = {}, None  # the cells that had a source when all were bound
        self._placed = {}  # offset of a cell that is not used -> the memory that is

    def set_hypers(self, numbers, cells):
        """Writes hyper-parameters of the groups of the plan `cells`, each by its type."""
        first = 0
        for cell in cells:
            offset, packer, whole, count = self._writers[cell]
            own = numbers[first:first + count]
            first += count
            for place in whole:
                own[place] = int(own[place])
            packer.pack_into(self._host, offset, *own)
            if self._sources:
                for place in range(count):
                    self._take(offset + _CELL * place, None)

    def set_tensors(self, entries):
        """Takes (cell, place, tensor) of hyper-parameters that lie on the device."""
        for cell, place, value in entries:
            self._take(self._writers[cell][0] + _CELL * place, value)

    def place(self, entries):
        """Takes (index in `bundle.singles`, tensor) of step-wide values that lie, from now
        on, in memory of the plan's device, where the step reads and writes them."""
        for index, memory in entries:
            scalar, _, offset = self._singles[index]
            if self._placed.get(offset) is memory:
                continue
            count = HISTORY if scalar.role == "history" else 1
            if memory.dtype != SCALAR_DTYPES[scalar.type] or memory.numel() != count:
                raise ValueError(f"no place for {scalar.key}: {memory.dtype}")
            self._placed[offset], self._bound = memory, None

    def give(self, given):
        """Sets the other values of the step by role: numbers, or tensors on the device."""
        for scalar, packer, offset in self._singles:
            if scalar.access != OUT and offset not in self._placed:
                value = given[scalar.role]
                if self._device is not None and isinstance(value, torch.Tensor):
                    self._take(offset, value)
                    continue
                self._take(offset, None)
                value = float(value)
                packer.pack_into(self._host, offset, int(value) if scalar.type in _WHOLE else value)

    def _take(self, offset, value):
        if value is None:
            self._sources.pop(offset, None)
        else:
            self._sources[offset] = value

    def send(self, plan):
        """Binds what is not bound to its cells yet, and queues copies of the tensors."""
        if self._bound != self._sources.keys():
            plan.mirror(ctypes.addressof(self._host), self._size)
            for index, part in enumerate(self._bundle.sets):
                for position, scalar in enumerate(part.hypers):
                    plan.bind_scalar(scalar.name, [
                        self._address(begin + _CELL * position * (index == owner))
                        for (begin, *_), owner in zip(self._writers, self._groups)])
            for scalar, _, offset in self._singles:
                plan.bind_scalar(scalar.name, [self._address(offset, scalar.access != IN)])
            self._bound = set(self._sources)
        if self._sources:
            places = list(self._sources)
            torch._foreach_copy_([self._view(place) for place in places], [
                value.view(()) if value.dim() else value for value in self._sources.values()],
                non_blocking=True)

    def _address(self, offset, result=False):
        if offset in self._placed:
            return self._placed[offset].data_ptr()
        if self._device is not None and (result or offset in self._sources):
            return self._device.data_ptr() + offset
        return ctypes.addressof(self._host) + offset

    def _view(self, offset):
        dtype = SCALAR_DTYPES[self._type_at(offset)]
        return self._device.view(dtype)[offset // dtype.itemsize]

    def _type_at(self, offset):
        for scalar, _, place in self._singles:
            if place == offset:
                return scalar.type
        for index, (begin, packer, *_) in zip(self._groups, self._writers):
            if begin <= offset < begin + packer.size:
                return self._bundle.sets[index].hypers[(offset - begin) // _CELL].type
        raise IndexError(offset)

    def memory(self):
        """The tensors on the device that the step reads and writes now."""
        own = [] if self._device is None else [self._device]
        return [*own, *self._placed.values(), *self._sources.values()]

    def results(self):
        """{role: what the step says}: a number; a 0-dim tensor that the next step overwrites
        where it lies on another device."""
        return {scalar.role: packer.unpack_from(self._host, offset)[0] if self._device is None
                else self._view(offset) for scalar, packer, offset in self._singles
                if scalar.access != IN and offset not in self._placed}
