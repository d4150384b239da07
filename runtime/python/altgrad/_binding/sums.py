"""Runs the first sweep of a step for each gradient during the backward pass."""

import ctypes
import weakref

import torch

from .._core import core, handle_of
from .._warn import warn


class Sums:
    """The rows of a TensorTable of table.py that were summed before their step.

    A gradient is known again by the object, its memory and its version counter; the weak
    reference keeps other objects from passing for it. The library remembers the memory.
    """

    def __init__(self, table, handle):
        self._rows, self._handle = table.rows, handle
        owned = all([row.owner is row.param for row in table.rows])
        self._can = bool(core().altgrad_table_sums(handle)) and owned
        self._summed = {}

    def can(self):
        return self._can

    def counts(self):
        counts = (ctypes.c_int64 * 2)()
        core().altgrad_table_counts(self._handle, counts)
        return tuple(counts)

    @torch.no_grad()
    def sum(self, row):
        self._summed.pop(row, None)
        of = self._rows[row]
        grad, done = of.param.grad, ctypes.c_int32()
        if not self._can or grad is None or not of.dense or not _is_plain(grad):
            return
        version = grad._version
        core().altgrad_table_sum(self._handle, row, handle_of(grad), ctypes.byref(done))
        if done.value:
            self._summed[row] = weakref.ref(grad), version

    def same(self):
        """A byte for each row: whether its gradient is the one that was summed, and unchanged. None where none was."""
        if not self._summed:
            return None
        same = bytearray(len(self._rows))
        for row, (summed, version) in self._summed.items():
            grad = self._rows[row].param.grad
            same[row] = grad is not None and summed() is grad and grad._version == version
        self._summed = {}
        return bytes(same)


def _is_plain(grad):
    """Whether a gradient is a plain tensor in memory: strided, not negated lazily, of no subclass."""
    return (type(grad) is torch.Tensor and grad.layout == torch.strided and not grad.is_neg()
            and not grad._is_zerotensor() and not grad.is_inference())


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
