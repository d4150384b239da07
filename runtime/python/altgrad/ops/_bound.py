"""A program of gradients bound to lists of one kind, kept for the next list of that kind."""

import ctypes
import threading
from array import array
from collections import OrderedDict
from ctypes import c_char_p, c_int32, c_int64, c_uint64, c_void_p

import torch

from .._binding.layout import FORMATS, PARAM_DTYPES
from .._binding.values import Values
from .._binding.where import Where, storages
from .._binding.workspace import Workspace
from .._bundle import compile_sets
from .._core import TYPES, core, dtype_of, torch_parallel_for
from .._library import struct
from .._plan import Plan

_WORDS = [FORMATS[dtype] for dtype in PARAM_DTYPES]
_MOST, _MOST_TENSORS = 256, 1 << 18  # plans of a thread, and tensors in them


class Bound:
    """One plan for lists of tensors of these dtypes and sizes on one device.

    It keeps no tensor: `run` is given the addresses, and binds them where they are others
    than those of the last run. `norms`: it gives a norm of each tensor. `rows`: of each tensor as
    a matrix, where that matters.
    """

    def __init__(self, seen, flags, copies, into, rows=None):
        self.where = Where(seen.device)
        if self.where.is_capturing():
            raise RuntimeError("altgrad.ops: this is the first call with a list of these dtypes and "
                               "sizes; a graph can be captured after one such call")
        kinds = sorted(set(seen.kinds), key=_WORDS.__getitem__)
        self._places = [[i for i, kind in enumerate(seen.kinds) if kind == own] for own in kinds]
        lines = [f"grad={word} copy={into or word}" if copies else f"grad={word}"
                 for word in map(_WORDS.__getitem__, kinds)]
        self.bundle = compile_sets(lines, (), flags, self.where.on_host)
        with self.where.guard():
            self._bind(seen, len(kinds), rows or [1] * len(seen.kinds))
        self._seen = {}

    def _bind(self, seen, sets, rows):
        numels = array("q", seen.numels)
        self.plan = Plan(self.bundle, self.where.name, torch_parallel_for(), torch.get_num_threads())
        self.plan.bind_tensors([(numels[place], index, index, -1, (rows[place], numels[place] // rows[place]), 0)
                                for index, places in enumerate(self._places) for place in places], sets)
        self.norms = None
        if self.bundle.sets[0].norm:
            self.norms = torch.empty(len(numels), dtype=torch.float32, device=seen.device)
            for part, places in zip(self.bundle.sets, self._places):
                self.plan.bind_scalar(part.norm.name, [
                    self.norms.data_ptr() + place * self.norms.itemsize for place in places])
        self._values = Values(self.bundle, range(sets), self.where)
        self._workspace = Workspace(self.plan, self.where)
        self.plan.keep_in_graphs(self._memory)

    def _memory(self):
        return storages(self._own())

    def _own(self):
        norms = [] if self.norms is None else [self.norms]
        return [self._workspace.tensor, *self._values.memory(), *norms]

    def _point(self, name, seen):
        if self._seen.get(name) == seen.pointers:
            return
        words = array("Q", seen.pointers)
        for part, places in zip(self.bundle.sets, self._places):
            stream = part.grad if name == "grad" else next(
                stream for stream in part.states if name == (
                    stream.key if stream.role == "tensor_scale" else
                    stream.key + "_scale" * (stream.role == "block_scale")))
            bind = self.plan.bind_stream if stream.block else self.plan.bind_scalar
            bind(stream.name, words if len(self._places) == 1 else [
                words[place] for place in places])
        self._seen[name] = seen.pointers

    def run(self, seen, given, copies=None, check=None):
        """Runs the program; answers its results by role, tensors that are the caller's.

        `copies`: Looks of where results go, by key: "copy" and its scales. `check` gets the norm's
        shares before anything is written.
        """
        with self.where.guard():
            self._point("grad", seen)
            for key, places in (copies or {}).items():
                self._point(key, places)
            self._values.give(given)
            self._values.send(self.plan)
            memory, stream, first = self._workspace.memory, self.where.stream(), 0
            if check:
                point, = self.bundle.exchanges
                self.plan.run(*memory, 0, point.phase, stream)
                check([word for _, word in self._workspace.words(point.words)])
                first = point.phase
            self.plan.run(*memory, first, -1, stream)
            if not self.where.on_host:
                self.where.record(self._own())
            results = {role: value.clone() if isinstance(value, torch.Tensor)
                       else torch.tensor(value, dtype=torch.float32, device="cpu")
                       for role, value in self._values.results().items()}
            if self.norms is not None:
                results["norm"] = self.norms.clone()
            return results


class One:
    """A Bound that makes one tensor of `x`, for more tensors like it on the CPU: `run` takes a fifth of the time."""

    def __init__(self, bound, x):
        part, = bound.bundle.sets
        self._bound = bound
        self._one = _One(bound.plan.handle, *bound._workspace.memory, part.grad.name, part.states[0].name, x.numel(),
                         TYPES[x.dtype], TYPES[dtype_of(part.states[0].format)])

    def run(self, x, out, given):
        """Whether it has made `out`, a new tensor, of `x`: if not, the two are no plain contiguous memory of its size."""
        taken = ctypes.c_int32()
        self._bound._seen.clear()
        self._bound._values.give(given)
        core().altgrad_table_run_one(ctypes.byref(self._one), id(x), id(out), ctypes.byref(taken))
        return taken.value


_One = struct("One", plan=c_void_p, workspace=c_void_p, bytes=c_uint64, source=c_char_p, target=c_char_p, numel=c_int64,
              type=c_int32, into=c_int32)


class _Kept(threading.local):
    """Plans are used by one thread at a time."""

    def __init__(self):
        self.bound, self.ones, self.tensors = OrderedDict(), {}, 0


_kept = _Kept()


def run(seen, flags, given, copies=None, check=None, into=None, rows=None):
    """Runs the program of `flags` on the tensors that were looked at.

    `into` is the format of copies that are not stored as what they are copies of.
    """
    return bound_to(seen, flags, copies, into, rows).run(seen, given, copies, check)


def bound_to(seen, flags, copies=None, into=None, rows=None):
    """The Bound for these tensors and others of their kind, as `run` has it."""
    key = flags, copies is not None, into, seen.device, seen.kinds, seen.numels, rows
    bound = _kept.bound.get(key)
    if bound is None:
        bound = _kept.bound[key] = Bound(seen, flags, copies is not None, into, rows)
        _kept.tensors += len(seen.kinds)
        while len(_kept.bound) > _MOST or len(_kept.bound) > 1 and _kept.tensors > _MOST_TENSORS:
            (*_, kinds, _, _), _ = _kept.bound.popitem(last=False)
            _kept.tensors -= len(kinds)
    else:
        _kept.bound.move_to_end(key)
    return bound


def one_of(key):
    """The One of this thread that was kept under `key`, or None."""
    return _kept.ones.get(key)


def keep_one(key, bound, x):
    if len(_kept.ones) >= _MOST:
        _kept.ones.clear()
    _kept.ones[key] = One(bound, x)
