"""The tensors of one step, bound to one plan, and the checks of every step."""

from collections.abc import Mapping
from itertools import chain
from operator import attrgetter, is_

import torch
from torch.autograd.graph import increment_version

from .._library import library
from .._plan import Plan
from .layout import FORMATS, check_extent, in_order, is_dense, matrix_of, same_order, units_of
from .sums import Sums
from .torch_pool import torch_parallel_for
from .values import Values
from .where import Where, storages
from .workspace import Workspace

# What TensorTable.fresh answers.
STALE, OTHER_GRADS, FRESH = range(3)

_END = (None,)
# map() over unbound methods is faster than a comprehension; this runs for every tensor in every step.
_data_ptr, _shape, _stride = torch.Tensor.data_ptr, torch.Tensor.size, torch.Tensor.stride
_is_contiguous, _is_neg = torch.Tensor.is_contiguous, torch.Tensor.is_neg
_dtype = attrgetter("dtype")
_grad = attrgetter("grad")


class TensorTable:
    """All tensors of one step on one device, bound to one plan.

        TensorTable(bundle, rows, groups, params, idle, state)

    `where` is the device.

    - `bundle`: the Bundle of the step;
    - `rows`: a Row for each parameter with a gradient, set by set; its `set`, `cell`,
      `place`, `strides`, `dense`, `grad_dtype`, `tensors` and `count` are read;
    - `groups`: the set of each group of the plan, which `Row.cell` counts;
    - `params`: every parameter of the optimizer, which `Row.place` counts;
    - `idle`: the places of those that have no gradient and whose gradients are looked at here;
    - `state`: optimizer.state, a dict of dicts.

    `fresh(params, state)` is called in every step and changes no tensor. Its answer is one of:
    - STALE: a parameter is another object or has another address, shape, strides or dtype; or an entry of `state` is
      another object, is new or is missing; or a bound state or count has another address, shape, strides or dtype.
    - OTHER_GRADS: a parameter without a row has a gradient now, a gradient is of another kind, or no row has one.
    - FRESH: neither. The gradients of this step are then bound. A row without a gradient is left out of the step.

    `set_hypers(numbers, cells)` writes the hyper-parameters of the plan's groups `cells`: for each group, those of its
    set in the order of the bundle. `set_tensors(entries)` then takes (cell, place in it, tensor) of hyper-parameters
    that lie in memory of the device; the step reads them there when it runs.

    `run(given)` runs the step on the gradients that were bound last and returns `results()`, {role: value}. First it
    takes edits of parameters into their master copies; version counters show that a parameter was edited. It raises the
    version counters of everything that the step writes. `given` has the values of the whole step by role. A value that
    has memory of its own is given by `place(entries)` instead: (index in bundle.singles, 0-dim tensor).

    `begin(given)`, followed by `advance()` until that returns None, does the same in parts, for steps on several devices
    or ranks. At each exchange point `advance()` returns (reduction, word): this device's 0-dim tensors, float32 or for
    ALL int32, which the caller overwrites with the combined values.

    `sum(row)` runs the first sweep of the next step for one row, whose gradient has just been computed, if `sums()` says
    that this is possible. The step uses the sum unless the gradient or the loss scale has changed since then.
    `summed_rows()` returns for how many rows the last step used such a sum, and for how many it could not.

    `statistics()` returns what the last step says of each row: float32 tensors by keys. A skipped step leaves some of
    them unchanged.
    """

    def __init__(self, bundle, rows, groups, params, idle, state):
        self.bundle, self.rows = bundle, rows
        self.where = Where(rows[0].param.device)
        self._odd = not all([type(held) is dict for held in state.values()])
        self._params, self._state_entries = params, list(_entries(state, self._odd))
        self._tensors = [row.param for row in rows]
        self._places = [row.place for row in rows]
        self._idle = idle
        self._picked = self._places != list(range(len(params)))
        self._staged = [(row.param, torch.empty_strided(
            row.param.shape, row.strides, dtype=row.param.dtype, device=row.param.device))
            for row in rows if not row.dense]
        self._plain = all([row.dense and row.param.is_contiguous() for row in rows])
        self._slices = _slices([row.set for row in rows], len(bundle.sets))
        self._remember()
        self._taken = self._kept = None
        self.plan = Plan(bundle, self.where.name, torch_parallel_for(), torch.get_num_threads())
        self.plan.bind_tensors([(row.param.numel(), row.cell, row.set, row.place, matrix_of(row.param, row.strides),
                                 units_of(row.param)) for row in rows], len(groups))
        self._bind_tensors()
        self._bind_statistics()
        self._values = Values(bundle, groups, self.where)
        self.set_hypers, self.set_tensors = self._values.set_hypers, self._values.set_tensors
        self.results, self.place = self._values.results, self._values.place
        self._workspace = Workspace(self.plan, self.where)
        self.memory = self._workspace.memory
        self.plan.keep_in_graphs(self._memory)
        self._sums = Sums(self)
        self.sums, self.sum = self._sums.can, self._sums.sum
        self.summed_rows = self._sums.counts

    # Set once, in the constructor.

    def _remember(self):
        rows, tensors = self.rows, self._tensors
        self._known = _identity(tensors)
        self._shapes = self._known[1]
        self._grad_dtypes = [row.grad_dtype for row in rows]
        self._empty = sum([p.numel() == 0 for p in tensors])
        states = [t for row in rows for t in row.tensors]
        self._states = states + [row.count for row in rows if row.count is not None]
        self._known_states = _identity(self._states)
        for tensor in tensors + self._states:
            check_extent(tensor)
        self._bound = [None] * len(self.bundle.sets)
        self._take_part(range(len(rows)))

    def _bind_tensors(self):
        staged = {id(param): copy for param, copy in self._staged}
        masters = []
        for index, (part, mine) in enumerate(zip(self.bundle.sets, self._slices)):
            rows = self.rows[mine]
            self.plan.bind_stream(part.param.name, [
                staged.get(id(row.param), row.param).data_ptr() for row in rows])
            for position, stream in enumerate(part.states):
                tensors = [row.tensors[position] for row in rows]
                bind = self.plan.bind_stream if stream.block else self.plan.bind_scalar
                bind(stream.name, list(map(_data_ptr, tensors)))
                if stream.role == "master":
                    masters += zip([row.param for row in rows], tensors)
            if part.step:
                self.plan.bind_scalar(part.step.name, [row.count.data_ptr() for row in rows])
        self._masters = masters
        self._versions = [None] * len(masters)

    def _memory(self):
        """What a captured graph of this step reads and writes."""
        return storages([self._workspace.tensor, *self._values.memory(), *self._tensors, *self._states,
                         *[copy for _, copy in self._staged], *self._statistics.values(),
                         *(self._taken or ()), *(self._kept or ())])

    def _bind_statistics(self):
        self._statistics = {}
        for part, mine in zip(self.bundle.sets, self._slices):
            for scalar in part.statistics:
                with torch.inference_mode(False), torch.no_grad():  # later steps clear them
                    memory = self._statistics.setdefault(scalar.key, torch.zeros(
                        len(self.rows), dtype=torch.float32, device=self.where.device))
                    memory[mine] = float("nan")  # until a step says it
                self.plan.bind_scalar(scalar.name, list(map(_data_ptr, memory[mine].unbind())))

    def statistics(self):
        return self._statistics

    # Called in every step.

    @torch.no_grad()
    def fresh(self, params, state):
        """Whether everything is as it was when it was bound. Binds the gradients of this step."""
        known = self._params
        if len(params) != len(known) or not all(map(is_, params, known)):
            return STALE
        try:
            if not all(map(is_, _entries(state, self._odd), self._state_entries)):
                return STALE
        except TypeError:  # an entry that is no parameter's came
            return STALE
        if _identity(self._tensors) != self._known or _identity(self._states) != self._known_states:
            return STALE
        grads = list(map(_grad, params))
        for place in self._idle:
            if grads[place] is not None:
                return OTHER_GRADS
        if self._picked:
            grads = [grads[place] for place in self._places]
        return FRESH if self._bind_grads(grads) else OTHER_GRADS

    def _bind_grads(self, grads):
        """Binds one gradient per row, or says that a row has none; False if one does not fit any more.

        A gradient in another memory order than its parameter, or without memory, is
        copied into one that fits. All are kept alive until the step has run.
        """
        self._taken = grads
        there = [place for place, grad in enumerate(grads) if grad is not None]
        try:
            found = self._pointers([grads[place] for place in there], there)
        except (AttributeError, RuntimeError):  # a layout without a pointer
            return False
        if not found:
            return False
        if there != self._present:
            self._take_part(there)
            present = bytearray(len(grads))
            for place in there:
                present[place] = 1
            self.plan.bind_present(bytes(present))
            absent = [place for place in range(len(grads)) if not present[place]]
            self._sums.restart(there)
            for memory in self._statistics.values() if absent else ():
                memory[absent] = float("nan")  # until its next step says it
        pointers = [0] * len(grads)
        for place, pointer in zip(there, found):
            pointers[place] = pointer
        for index, (part, mine) in enumerate(zip(self.bundle.sets, self._slices)):
            if pointers[mine] != self._bound[index]:
                for grad in grads[mine]:
                    if grad is not None:
                        check_extent(grad)
                self.plan.bind_stream(part.grad.name, pointers[mine])
                self._bound[index] = pointers[mine]
        return True

    def _pointers(self, grads, places):
        """Where the gradients of the rows at these places lie; None where one does not fit its row."""
        of = lambda every: every if len(places) == len(every) else [every[place] for place in places]
        if (list(map(_dtype, grads)) != of(self._grad_dtypes)
                or list(map(_shape, grads)) != of(self._shapes)):
            return None
        empty, pointers = sum([not grad.numel() for grad in grads]) if self._empty else 0, None
        if self._plain and all(map(_is_contiguous, grads)) and not any(map(_is_neg, grads)):
            pointers = list(map(_data_ptr, grads))
        if pointers is None or pointers.count(0) != empty:
            self._kept = [_in_memory(g, row.strides) for g, row in zip(grads, of(self.rows))]
            pointers = list(map(_data_ptr, self._kept))
            if pointers.count(0) != empty:
                return None
        return pointers

    def _take_part(self, places):
        """Notes which rows the next steps write."""
        self._present = list(places)
        mine = {id(self.rows[place].param) for place in places}
        self._written = [tensor for row in self.rows if id(row.param) in mine
                         for tensor in (row.param, *row.tensors, *([] if row.count is None else [row.count]))]
        self._stepped = mine

    def run(self, given):
        """Runs the step and returns its results."""
        self.begin(given)
        self._run_to(-1)
        self._finish()
        return self.results()

    @torch.no_grad()
    def begin(self, given):
        """Does what has to be done before the kernels run."""
        with self.where.guard():
            self._values.give(given)
            self._values.send(self.plan)
            self._take_edits()
            for param, copy in self._staged:
                if id(param) in self._stepped:
                    copy.copy_(param)
            # Before the kernels run: they evict the tensors' headers from the caches.
            increment_version(self._written)
        self._next, self._points = 0, list(self.bundle.exchanges)

    def advance(self):
        """Runs to the next exchange point and answers its words; None at the end of the step."""
        if not self._points:
            self._run_to(-1)
            return self._finish()
        point = self._points.pop(0)
        self._run_to(point.phase)
        self._next = point.phase
        return self._workspace.words(point)

    def _run_to(self, phase):
        with self.where.guard():
            first = self._next or self._sums.run(self._taken)
            self.plan.run(*self.memory, first, phase, self.where.stream())

    @torch.no_grad()
    def _finish(self):
        with self.where.guard():
            self._sums.has_run = True
            self._workspace.record()
            for param, copy in self._staged:
                if id(param) in self._stepped:
                    param.copy_(copy)
        self._taken = self._kept = None
        self._versions = [_version_of(param) if id(param) in self._stepped else version
                          for (param, _), version in zip(self._masters, self._versions)]

    def _take_edits(self):
        """Takes what was written into a parameter from outside into its master copy.

        Element by element: where the parameter still is the rounded master, the master
        keeps the bits that the parameter has no room for.
        """
        for (param, master), version in zip(self._masters, self._versions):
            if _version_of(param) == version or id(param) not in self._stepped:
                continue
            half = FORMATS.get(param.dtype) in ("bf16", "f16") and master.dtype == torch.float32
            if self.where.on_host and half and same_order(param, master.stride()) and is_dense(param):
                library().altgrad_take_edits(FORMATS[param.dtype].encode(), param.data_ptr(),
                                             master.data_ptr(), param.numel())
                continue
            edited = param != master.to(param.dtype)
            # Elsewhere this would wait for the device.
            if not self.where.on_host or edited.any():
                master.copy_(torch.where(edited, param.to(master.dtype), master))


def _entries(state, odd):
    """Every entry of every state in order, and a mark at the end, so that a missing entry is noticed.

    `odd`: the user keeps something of their own there, which is not looked at.
    """
    each = map(dict.values, state.values()) if not odd else [
        held.values() for held in state.values() if isinstance(held, Mapping)]
    return chain(chain.from_iterable(each), _END)


def _identity(tensors):
    return [list(map(f, tensors)) for f in (_data_ptr, _shape, _stride, _dtype)]


def _version_of(tensor):
    return 0 if tensor.is_inference() else tensor._version


def _slices(sets, count):
    ends = [sets.index(index) for index in range(count)] + [len(sets)]
    return [slice(first, last) for first, last in zip(ends, ends[1:])]


def _in_memory(grad, strides):
    check_extent(grad)
    return grad.clone() if grad._is_zerotensor() else in_order(grad, strides)
