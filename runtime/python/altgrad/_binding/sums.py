"""Runs the first sweep of a step for each gradient during the backward pass."""

import ctypes
import weakref
from itertools import accumulate

import torch

from .._warn import warn
from .layout import check_extent, same_order

_CHUNK = 4096  # ALTGRAD_CHUNK of bundle.h


class Sums:
    """The rows of a TensorTable of table.py that were summed before their step.

    A gradient is known again by the object, its memory and its version counter; the weak
    reference keeps other objects from passing for it.
    """

    def __init__(self, table):
        self._rows, self._plan, self._memory = table.rows, table.plan, table.memory
        self._bundle, self._slices, self._bound = table.bundle, table._slices, table._bound
        self._on_host = table.where.on_host
        self._summed, self._counted, self.has_run = {}, (0, 0), False
        self._there = set(range(len(self._rows)))
        self._count_chunks()

    def can(self):
        return self._on_host and bool(self._bundle.sums)

    def restart(self, places):
        """Forgets what was summed: chunks are counted over the rows at these places now."""
        self._summed, self._there = {}, set(places)
        self._count_chunks()

    def _count_chunks(self):
        self._chunks = list(accumulate([-(-row.param.numel() // _CHUNK) if place in self._there else 0
                                        for place, row in enumerate(self._rows)], initial=0))

    def counts(self):
        return self._counted

    @torch.no_grad()
    def sum(self, row):
        self._summed.pop(row, None)
        of = self._rows[row]
        grad, set, param = of.param.grad, of.set, of.param
        if not self.has_run or row not in self._there or not self.can() or grad is None or not _is_plain(grad, of):
            return
        place, version = row - self._slices[set].start, grad._version
        self._plan.bind_tensor(self._bundle.sets[set].grad.name, place, grad.data_ptr())
        self._bound[set][place] = grad.data_ptr()
        # A word that is not 0 afterwards was written by this sweep.
        words, chunks = self._words()
        first, last = self._chunks[row:row + 2]
        for word in range(0, len(words), chunks):
            words[word + first:word + last] = [0] * (last - first)
        self._sweep(set, first, last)
        self._summed[row] = weakref.ref(grad), grad.data_ptr(), version

    def run(self, grads):
        """Runs the first sweeps of the rows that are not summed yet. Returns the phase after them, or 0."""
        summed, self._summed, self._counted = self._summed, {}, (0, 0)
        if not summed:
            return 0
        sums, (offset, *_) = self._bundle.sums, self._plan.partials()
        # These sums depend on the phases before them.
        size = offset if min(sums) else 0
        before = ctypes.string_at(self._memory[0], size)
        self._plan.run(*self._memory, 0, min(sums))
        if ctypes.string_at(self._memory[0], size) != before:
            summed = {}
        done = {row for row, of in summed.items()
                if self._is_same(row, grads[row], *of) and self._is_untouched(row)}
        self._counted = len(done), len(summed) - len(done)
        for set, mine in enumerate(self._slices):
            first = mine.start
            for row in range(mine.start, mine.stop + 1):
                if row == mine.stop or row in done:
                    self._sweep(set, self._chunks[first], self._chunks[row])
                    first = row + 1
        return max(sums) + 1

    def _sweep(self, set, first, last):
        self._plan.run_chunks(*self._memory, self._bundle.sums[set], first, last)

    def _words(self):
        """(the words that sweeps write for each chunk, the number of chunks)."""
        offset, count, chunks = self._plan.partials()
        return (ctypes.c_uint32 * (count * chunks)).from_address(self._memory[0] + offset), chunks

    def _is_untouched(self, row):
        """Sums one chunk again: unscale_ and collectives write whole gradients and raise no version.

        It is one that has a sum, neither 0 nor a verdict's 1.
        """
        words, chunks = self._words()
        mine = range(self._chunks[row], self._chunks[row + 1])
        chunk = next((chunk for word in range(0, len(words), chunks) for chunk in mine
                      if words[word + chunk] > 1), mine.start)
        before = words[chunk::chunks]
        self._sweep(self._rows[row].set, chunk, chunk + 1)
        return words[chunk::chunks] == before

    def _is_same(self, row, grad, summed, pointer, version):
        of = self._rows[row].set
        return (summed() is grad and grad._version == version
                and self._bound[of][row - self._slices[of].start] == pointer)


def _is_plain(grad, row):
    """Whether the step reads this gradient in place, without a copy."""
    param = row.param
    if (not row.dense or type(grad) is not torch.Tensor or grad.layout != torch.strided
            or grad.dtype != row.grad_dtype or grad.device != param.device
            or grad.shape != param.shape or grad.is_neg() or grad._is_zerotensor()
            or grad.is_inference() or not grad.numel() or not same_order(grad, row.strides)):
        return False
    check_extent(grad)
    return grad.data_ptr() != 0


# For larger gradients (in bytes) a hook saves more than it costs; found by tools/bench.py.
WORTH_A_HOOK = 1 << 20


class NormHooks:
    """Hooks on parameters that sum each gradient as backward finishes it."""

    def __init__(self):
        self._handles, self._said, self._owner = [], set(), ""

    def __del__(self):
        self.remove()

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def attach(self, owner, tables, turns):
        """Puts hooks on the parameters of these tables, in place of all earlier ones.

        `turns` is the lock under which steps of the optimizer run.
        """
        self.remove()
        self._owner = owner
        for table in tables:
            if table.sums():
                self._handles += [row.param.register_post_accumulate_grad_hook(
                    _hook(weakref.ref(table), turns, index))
                    for index, row in enumerate(table.rows) if row.param.requires_grad
                    and row.param.numel() * row.grad_dtype.itemsize >= WORTH_A_HOOK]
            elif not table.where.on_host:
                self._say(f"kernels on {table.where.device} read all gradients once more in the step")
            elif table.bundle.sets and any([s.role == "max_norm" for s in table.bundle.singles]):
                self._say("the first sweep of this step reads more than gradients, so it runs in "
                          "the step")

    def look(self, tables):
        """Warns once if sums of the last step could not be used, and why."""
        if self._handles and _in_ranks():
            self._say("other ranks may change gradients after backward without a trace, so the "
                      "step reads all of them once more")
        elif changed := sum([table.summed_rows()[1] for table in tables]):
            self._say(f"{changed} gradients were changed after backward, so the step read them "
                      "once more")

    def _say(self, reason):
        key = reason.lstrip("0123456789")
        if key not in self._said:
            self._said.add(key)
            warn(f"altgrad.optim.{self._owner}: norm_in_backward: {reason}")


def _hook(held, turns, row):
    def sum_gradient(param):
        table = held()
        # If a step runs in another thread, this gradient is summed in its own step.
        if table is None or _in_ranks() or not turns.acquire(blocking=False):
            return
        try:
            table.sum(row)
        finally:
            turns.release()
    return sum_gradient


def _in_ranks():
    """Whether there are other ranks. Their collectives write into gradients without raising a version counter."""
    dist = torch.distributed
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
