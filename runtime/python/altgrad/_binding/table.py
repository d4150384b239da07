"""The tensors of one step, bound to one plan, and the checks of every step."""

import ctypes
import weakref
from array import array
from itertools import compress
from operator import attrgetter, is_, itemgetter

import torch
from torch.autograd.graph import increment_version

from .._core import CoreRow, core, handle_of, knows, torch_parallel_for
from .._library import TensorWords
from .._plan import Plan
from .entries import Entries
from .layout import check_extent, in_order
from .offload import Buckets, HostCopy, drop_stale
from .matrix_blocks import shape_here
from .partial_sums import PartialSums, merge_verdicts
from .values import Values
from .device_context import DeviceContext, storages
from .workspace import Workspace

# What TensorTable.validate answers, and what the library may say of a gradient beside that.
STALE, OTHER_GRADS, FRESH, _ODD = range(4)

_data_ptr = torch.Tensor.data_ptr
_grad = attrgetter("grad")


class TensorTable:
    """All tensors of one step on one device, bound to one plan.

        TensorTable(bundle, rows, groups, params, idle, state)

    `where` is the device.

    - `bundle`: the Bundle of the step;
    - `rows`: a Row for each parameter with a gradient, set by set; its `set`, `cell`,
      `tag`, `owner`, `part`, `at`, `share`, `strides`, `dense`, `grad_dtype`, `matrices`, `piece`, `more`, `stands_in`,
      `tensors` and `count` are read. A parameter of several pieces has a row for each, one behind the other, and so has
      one of several blocks;
    - `groups`: the set of each group of the plan, which `Row.cell` counts;
    - `params`: every parameter of the optimizer, which `Row.index` counts;
    - `idle`: the places of those that have no gradient and whose gradients are looked at here;
    - `state`: optimizer.state, a dict of dicts.

    `validate(params, state)` is called in every step and changes no tensor. Its answer is one of:
    - STALE: a parameter is another object or has another address, shape, strides or dtype; or an entry of `state` is
      another object, is new or is missing; or a bound state or count has another address, shape, strides or dtype.
    - OTHER_GRADS: a parameter without a row has a gradient now, a gradient is of another kind, or no row of a set has
      one.
    - FRESH: neither. The gradients of this step are then bound. A row without a gradient is left out of the step.

    `set_hypers(numbers, cells)` writes the hyper-parameters of the plan's groups `cells`: for each group, those of its
    set in the order of the bundle. `set_tensors(entries)` then takes (cell, place in it, tensor) of hyper-parameters
    that lie in memory of the device; the step reads them there when it runs.

    `run(given)` runs the step on the gradients that were bound last and returns `results()`, {role: value}. It raises
    the version counters of everything that the step writes. `given` has the values of the whole step by role. A value
    that has memory of its own is given by `bind_values(entries)` instead: (index in bundle.singles, 0-dim tensor).

    `begin(given)`, followed by `advance()` until that returns None, does the same in parts, for steps on several
    devices or ranks. At each exchange point `advance()` returns a list of (reduction, word, name of a rule's sum or ""),
    this device's 0-dim tensors, float32 or for ALL int32, which the caller overwrites with the combined values; or no
    word, and a TensorAllReduce of sums over tensors.

    `sum(row)` runs the first sweep of the next step for one row, whose gradient has just been computed, if `unsummed()`
    is None; otherwise that says why it does not, "" where nothing is clipped. The step uses the sum unless the gradient
    or the loss scale has changed since then, or `forget(row)` was called. Of a DTensor, `sum(row, part)` is given the
    part of its gradient that lies here, if `unsummed(parts=True)` is None.
    `summed_rows()` returns for how many rows the last step used such a sum, and for how many it could not.

    `statistics()` returns what the last step says of each row: float32 tensors by keys. A skipped step leaves some of
    them unchanged.
    """

    def __init__(self, bundle, rows, groups, params, idle, state):
        self.bundle, self.rows = bundle, rows
        self.context = DeviceContext(rows[0].param.device)
        self._params, self._entries = params, Entries(state)
        self._tensors, self._idle = [row.param for row in rows], idle
        # Some tensor subclasses have a property of this name.
        self._read = knows().autograd >= 0 and all([kind.grad is torch.Tensor.grad for kind in set(map(type, params))])
        self._stand_in = any([row.stands_in for row in rows])
        self._parts = [(place, row.part) for place, row in enumerate(rows) if row.part is not None]
        self._read = self._read and not self._parts
        self._slices = _slices([row.set for row in rows], len(bundle.sets))
        self._states = [tensor for row in rows for tensor in _kept_tensors(row)]
        self._kept, self._host_copies = None, [part for _, part in self._parts if isinstance(part, HostCopy)]
        self.plan = Plan(bundle, self.context.name, torch_parallel_for(), torch.get_num_threads())
        self._make(len(groups))
        self._bind_statistics()
        self._values = Values(bundle, groups, self.context)
        self.set_hypers, self.set_tensors = self._values.set_hypers, self._values.set_tensors
        self.results, self.bind_values = self._values.results, self._values.bind
        self._workspace = Workspace(self.plan, self.context)
        core().altgrad_table_use(self._handle, *self._workspace.memory, self.context.on_host)
        self.words = self._workspace.every
        self._shares = PartialSums(self.plan, bundle, rows, self.words())
        stops = sorted([*[(phase, ()) for phase in self._shares.phases],
                        *[(of.phase, of.words) for of in bundle.exchanges]], key=itemgetter(0))
        self._stops = merge_verdicts(stops)
        # Whatever parts this rank has, others may have some of each tensor.
        self._phases = sorted({of.phase for of in (*bundle.exchanges, *bundle.partials)})
        # Whether a step is the library's work alone, so that no operator of torch runs beside it.
        self._alone = self.context.on_host and knows().counter >= 0 and not self._parts
        self._buckets = Buckets([] if self._dense else rows, self._handle)
        self._take_part(bytes([1]) * len(rows))
        self.plan.keep_in_graphs(self._memory)

    # Set once, in the constructor.

    def _make(self, groups):
        """Has the library bind the tensors, and remember them where they are in Python's objects."""
        self._dense = {id(row.param): torch.empty_strided(
            row.param.shape, row.strides, dtype=row.param.dtype, device=row.param.device)
            for row in self.rows if not row.dense}
        handle, rows, read = ctypes.c_void_p(), (CoreRow * len(self.rows))(), []  # `read`: what they point to
        for place, row in enumerate(self.rows):
            tensors, shape = array("Q", map(handle_of, (row.param, *_kept_tensors(row)))), array("q", shape_here(row.owner, row.part))
            dense, offset = self._dense.get(id(row.param)), row.at.begin if row.at and row.at.parted else 0
            rows[place] = (_begin(tensors), 0 if dense is None else handle_of(dense), _begin(shape), len(shape), offset,
                           row.matrices and ctypes.addressof(row.matrices), row.piece, row.tag, row.more, row.set,
                           row.cell)
            read += tensors, shape
        core().altgrad_table_create(self.bundle.handle, self.plan.handle, rows, len(rows), groups, ctypes.byref(handle))
        weakref.finalize(self, core().altgrad_table_free, handle).atexit = False
        self._handle, self._found = handle.value, ctypes.c_int32()
        self._there = (ctypes.c_char * len(rows)).from_address(core().altgrad_table_present(handle))
        idle = array("Q", [handle_of(self._params[place]) for place in self._idle])
        core().altgrad_table_watch(handle, _begin(idle), len(idle))

    def factorize_by_products(self):
        """Has the squares of the next steps factorized by products, and not by LAPACK or its like."""
        core().altgrad_core_use_products(self._handle)

    @property
    def declared(self):
        """What the plan was told of each row: the words of an altgrad_tensor."""
        return (TensorWords * len(self.rows)).from_address(core().altgrad_table_declared(self._handle))

    def _memory(self):
        """What a captured graph of this step reads and writes."""
        return storages([*self._own(), *self._tensors, *self._states, *self._grads(), *(self._kept or ())])

    def _own(self):
        """What kernels read and write besides the user's tensors."""
        return [self._workspace.tensor, *self._values.memory(), *self._dense.values(), *self._statistics.values()]

    def _bind_statistics(self):
        self._statistics = {}
        for part, mine in zip(self.bundle.sets, self._slices):
            for scalar in part.statistics:
                with torch.inference_mode(False), torch.no_grad():  # later steps clear them
                    memory = self._statistics.setdefault(scalar.key, torch.zeros(
                        len(self.rows), dtype=torch.float32, device=self.context.device))
                    memory[mine] = float("nan")  # until a step says it
                self.plan.bind_scalar(scalar.name, list(map(_data_ptr, memory[mine].unbind())))

    def statistics(self):
        return self._statistics

    def unsummed(self, parts=False):
        why = core().altgrad_table_unsummed(self._handle)
        if why is None and not parts and not all([part.is_whole for _, part in self._parts]):
            return "the parts of DTensors are summed in the step"
        return why and why.decode()

    # Called in every step.

    def validate(self, params, state):
        """Whether everything is as it was when it was bound. Binds the gradients of this step."""
        known = self._params
        if params is not known and (len(params) != len(known) or not all(map(is_, params, known))):
            return STALE
        if not self._entries.are_same(state):
            return STALE
        if self._parts and not all([part.is_still(self._tensors[place]) for place, part in self._parts]):
            return STALE
        if self._host_copies:
            drop_stale(self._host_copies)
        self._kept = None
        grads = None if self._read else self._grads()
        found = self._validate(grads)
        if not self._read and found != STALE and any([params[place].grad is not None for place in self._idle]):
            return OTHER_GRADS
        if found == _ODD:
            self._kept = self._in_memory(grads or self._grads())
            found = self._validate(self._kept, trusted=True) if self._kept else _ODD
        if found == FRESH and (present := self._there.raw) != self._present:
            self._take_part(present)
        return OTHER_GRADS if found == _ODD else found

    def _grads(self):
        """The gradients as they lie here, None for those that are not there."""
        grads = list(map(_grad, self._tensors))
        for place, part in self._parts:
            grads[place] = part.grad(self.fallbacks)
        return grads

    def _validate(self, grads, trusted=False):
        """What the library says of gradients; None: of those that the parameters have."""
        given = grads and array("Q", [0 if grad is None else handle_of(grad) for grad in grads])
        core().altgrad_table_validate(self._handle, given and _begin(given), trusted, self._found)
        return self._found.value

    @torch.no_grad()
    def _in_memory(self, grads):
        """The gradients, with copies of those that lie otherwise than their rows; None where one does not fit its row."""
        kept = []
        for grad, row in zip(grads, self.rows):
            if grad is not None:
                if (grad.layout != torch.strided or grad.dtype != row.grad_dtype or grad.shape != row.param.shape
                        or grad.device != row.param.device
                        or type(grad).__torch_dispatch__ != torch.Tensor.__torch_dispatch__):
                    return None
                grad = _in_memory(grad, row.strides)
            kept.append(grad)
        return kept

    def _take_part(self, present):
        """Notes which rows the next steps write, where others than before do."""
        # With experts this is another list in every step: what most steps do not need is not made.
        self._present = present
        self._written = None if knows().counter >= 0 else [
            tensor for row in compress(self.rows, present) if row.piece <= 0 for tensor in (row.param, *_kept_tensors(row))]
        for memory in self._statistics.values() if 0 in present else ():
            absent = [place for place, there in enumerate(present) if not there]
            memory[absent] = float("nan")  # until its next step says it

    _present = None
    share = None  # the Share of its rows in sums over the step
    fallbacks = None  # a Counter of the tensors that took a detour
    reproducible_sums = None  # the ReproducibleSums over all ranks, with the bits of one process

    def run(self, scalars):
        """Runs the step and returns its results."""
        self._prepare(scalars)
        for phase in self._phases if self.reproducible_sums else ():
            self._run_to(phase)
            with self.context.guard():
                self.reproducible_sums.take(phase, self._present)
        self._run_to_end()
        self._finish()
        return self.results()

    def begin(self, scalars):
        """Does what has to be done before the kernels run, where `advance` runs them."""
        self._prepare(scalars)
        self._points = list(self._stops)

    def _prepare(self, scalars):
        if self._alone:
            self._values.give(scalars)
            self._values.send(self.plan)
            return
        with torch.no_grad(), self.context.guard():
            host_copies = self._present_parts(True)
            for host_copy in host_copies:
                host_copy.begin(self._buckets.wait)
            self._values.give(scalars)
            self._values.send(self.plan)
            if self._written is not None:  # else the library does it
                increment_version(self._written)
            if len(host_copies) < len(self._parts):  # DTensors have versions of their own
                increment_version([part.owner for part in self._present_parts(False)])

    def _present_parts(self, whole):
        return list(dict.fromkeys([part for place, part in self._parts if self._present[place] and part.is_whole == whole]))

    def advance(self):
        """Runs to the next exchange point and answers its words and shares; None at the end of the step."""
        if not self._points:
            self._run_to_end()
            return self._finish()
        phase, words = self._points.pop(0)
        self._run_to(phase)
        return self._workspace.words(words), None if words else self._shares.of(phase, self._present)

    def steps(self):
        """Whether a parameter takes part in this step."""
        return not self._stand_in or any([there and not row.stands_in for there, row in zip(self._present, self.rows)])

    def step_states(self):
        """The memory of the rule's numbers that are kept once for the step."""
        return [self._values.memory_of(index) for index, scalar in enumerate(self.bundle.singles) if scalar.role == "state"]

    def waits(self):
        """Whether there are exchange points behind the one that `advance` has come to."""
        return bool(self._points)

    def sum(self, row, part=None):
        grad = self.rows[row].param.grad if part is None else part
        if grad is not None:
            core().altgrad_table_sum(self._handle, row, handle_of(grad))

    def forget(self, row):
        core().altgrad_table_sum(self._handle, row, None)

    def summed_rows(self):
        counts = (ctypes.c_int64 * 2)()
        core().altgrad_table_counts(self._handle, counts)
        return tuple(counts)

    def _run_to(self, phase):
        if self.context.on_host:
            core().altgrad_table_run(self._handle, phase, None)
            return
        with self.context.guard():
            core().altgrad_table_run(self._handle, phase, self.context.stream())

    def _run_to_end(self):
        """Runs what is left; where gradients come from a device, some rows while those of others travel."""
        if self._buckets:
            self._buckets.run(self._present, self._run_to)
        else:
            self._run_to(-1)

    def _finish(self):
        self._kept = None
        if self._alone:
            return
        if not self.context.on_host:
            self.context.record(self._own())
        for host_copy in self._present_parts(True) if self._parts and not self._buckets else ():
            host_copy.send()


def _kept_tensors(row):
    """What a step keeps beside a parameter, its count at the end."""
    return row.tensors if row.count is None else (*row.tensors, row.count)


def _begin(words):
    return words.buffer_info()[0]


def _slices(sets, count):
    ends = [sets.index(index) for index in range(count)] + [len(sets)]
    return [slice(first, last) for first, last in zip(ends, ends[1:])]


def _in_memory(grad, strides):
    check_extent(grad)
    return grad.clone() if grad._is_zerotensor() else in_order(grad, strides)
