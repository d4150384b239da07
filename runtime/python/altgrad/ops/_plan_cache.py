"""The cache of plans of a thread: programs of gradients bound to lists of one kind, kept for the next list of that kind."""

import ctypes
import threading
from array import array
from collections import OrderedDict
from ctypes import c_char_p, c_int32, c_int64, c_uint64, c_void_p

import torch

from .._binding.layout import FORMATS, PARAM_DTYPES
from .._binding.values import Values
from .._binding.device_context import DeviceContext, storages
from .._binding.workspace import Workspace
from .._bundle import compile_sets
from .._core import TYPES, core, dtype_of, torch_parallel_for
from .._library import struct
from .._plan import Plan

_WORDS = [FORMATS[dtype] for dtype in PARAM_DTYPES]
_MOST, _MOST_TENSORS = 256, 1 << 18  # plans of a thread, and tensors in them


class BoundPlan:
    """One plan for lists of tensors of these dtypes and sizes on one device.

    It keeps no tensor: `run` is given the addresses, and binds them where they are others
    than those of the last run. `norms`: it gives a norm of each tensor. `rows`: of each tensor as
    a matrix, where that matters.
    """

    def __init__(self, listed, flags, copies, into, rows=None):
        self.context = DeviceContext(listed.device)
        if self.context.is_capturing():
            raise RuntimeError("altgrad.ops: this is the first call with a list of these dtypes and "
                               "sizes; a graph can be captured after one such call")
        kinds = sorted(set(listed.kinds), key=_WORDS.__getitem__)
        self._places = [[i for i, kind in enumerate(listed.kinds) if kind == own] for own in kinds]
        lines = [f"grad={word} copy={into or word}" if copies else f"grad={word}"
                 for word in map(_WORDS.__getitem__, kinds)]
        self.bundle = compile_sets(lines, (), flags, self.context.on_host)
        with self.context.guard():
            self._bind(listed, len(kinds), rows or [1] * len(listed.kinds))
        self._pointers = {}

    def _bind(self, listed, sets, rows):
        numels = array("q", listed.numels)
        self.plan = Plan(self.bundle, self.context.name, torch_parallel_for(), torch.get_num_threads())
        self.plan.bind_tensors([(numels[place], index, index, -1, (rows[place], numels[place] // rows[place]), 0)
                                for index, places in enumerate(self._places) for place in places], sets)
        self.norms = None
        if self.bundle.sets[0].norm:
            self.norms = torch.empty(len(numels), dtype=torch.float32, device=listed.device)
            for part, places in zip(self.bundle.sets, self._places):
                self.plan.bind_scalar(part.norm.name, [
                    self.norms.data_ptr() + place * self.norms.itemsize for place in places])
        self._values = Values(self.bundle, range(sets), self.context)
        self._workspace = Workspace(self.plan, self.context)
        self.plan.keep_in_graphs(self._memory)

    def _memory(self):
        return storages(self._own())

    def _own(self):
        norms = [] if self.norms is None else [self.norms]
        return [self._workspace.tensor, *self._values.memory(), *norms]

    def _point(self, name, listed):
        if self._pointers.get(name) == listed.pointers:
            return
        words = array("Q", listed.pointers)
        for part, places in zip(self.bundle.sets, self._places):
            stream = part.grad if name == "grad" else next(
                stream for stream in part.states if name == (
                    stream.key if stream.role == "tensor_scale" else
                    stream.key + "_scale" * (stream.role == "block_scale")))
            bind = self.plan.bind_stream if stream.block else self.plan.bind_scalar
            bind(stream.name, words if len(self._places) == 1 else [
                words[place] for place in places])
        self._pointers[name] = listed.pointers

    def run(self, listed, given, copies=None, check=None):
        """Runs the program; answers its results by role, tensors that are the caller's.

        `copies`: TensorLists of where results go, by key: "copy" and its scales. `check` gets the norm's
        shares before anything is written.
        """
        with self.context.guard():
            self._point("grad", listed)
            for key, places in (copies or {}).items():
                self._point(key, places)
            self._values.give(given)
            self._values.send(self.plan)
            memory, stream, first = self._workspace.memory, self.context.stream(), 0
            if check:
                point, = self.bundle.exchanges
                self.plan.run(*memory, 0, point.phase, stream)
                check([word for _, word, _ in self._workspace.words(point.words)])
                first = point.phase
            self.plan.run(*memory, first, -1, stream)
            if not self.context.on_host:
                self.context.record(self._own())
            results = {role: value.clone() if isinstance(value, torch.Tensor)
                       else torch.tensor(value, dtype=torch.float32, device="cpu")
                       for role, value in self._values.results().items()}
            if self.norms is not None:
                results["norm"] = self.norms.clone()
            return results


class One:
    """A BoundPlan that makes one tensor of `x`, for more tensors like it on the CPU: `run` takes a fifth of the time."""

    def __init__(self, bound, x):
        part, = bound.bundle.sets
        self._bound = bound
        self._one = _One(bound.plan.handle, *bound._workspace.memory, part.grad.name, part.states[0].name, x.numel(),
                         TYPES[x.dtype], TYPES[dtype_of(part.states[0].format)])

    def run(self, x, out, given):
        """Whether it has made `out`, a new tensor, of `x`: if not, the two are no plain contiguous memory of its size."""
        taken = ctypes.c_int32()
        self._bound._pointers.clear()
        self._bound._values.give(given)
        core().altgrad_core_run_one(ctypes.byref(self._one), id(x), id(out), ctypes.byref(taken))
        return taken.value


_One = struct("One", plan=c_void_p, workspace=c_void_p, bytes=c_uint64, source=c_char_p, target=c_char_p, numel=c_int64,
              type=c_int32, into=c_int32)


class _PlanCache(threading.local):
    """Plans are used by one thread at a time."""

    def __init__(self):
        self.bound, self.ones, self.tensors = OrderedDict(), {}, 0


_cache = _PlanCache()


def run(listed, flags, given, copies=None, check=None, into=None, rows=None):
    """Runs the program of `flags` on the tensors of a TensorList.

    `into` is the format of copies that are not stored as what they are copies of.
    """
    return cached_plan(listed, flags, copies, into, rows).run(listed, given, copies, check)


def cached_plan(listed, flags, copies=None, into=None, rows=None):
    """The BoundPlan for these tensors and others of their kind, as `run` has it."""
    key = flags, copies is not None, into, listed.device, listed.kinds, listed.numels, rows
    bound = _cache.bound.get(key)
    if bound is None:
        bound = _cache.bound[key] = BoundPlan(listed, flags, copies is not None, into, rows)
        _cache.tensors += len(listed.kinds)
        while len(_cache.bound) > _MOST or len(_cache.bound) > 1 and _cache.tensors > _MOST_TENSORS:
            (*_, kinds, _, _), _ = _cache.bound.popitem(last=False)
            _cache.tensors -= len(kinds)
    else:
        _cache.bound.move_to_end(key)
    return bound


def one_of(key):
    """The One of this thread that was kept under `key`, or None."""
    return _cache.ones.get(key)


def keep_one(key, bound, x):
    if len(_cache.ones) >= _MOST:
        _cache.ones.clear()
    _cache.ones[key] = One(bound, x)
