"""Early norm: the first sweep of a step runs for each gradient during the backward pass."""

import weakref

import torch

from .._core import chunk, hook_bytes
from .._warn import warn
from .layout import is_dtensor
from .matrix_blocks import Block
from .fsdp_norm import FsdpNorm

# Of a gradient that was summed before the step, one chunk is summed again: fewer chunks save too little.
_WORTH_CHUNKS = 8


class NormHooks:
    """Hooks on parameters that sum each gradient as backward finishes it."""

    def __init__(self):
        self._handles, self._warned, self._owner, self._fsdp_norm = [], set(), "", None

    def __del__(self):
        self.remove()

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles, self._fsdp_norm = [], None

    def attach(self, owner, tables, lock):
        """Puts hooks on the parameters of these tables, in place of all earlier ones.

        `lock` is the lock under which steps of the optimizer run.
        """
        self.remove()
        self._owner = owner
        for table in tables:
            if reason := table.unsummed(parts=True):
                self._warn_once(reason)
            elif reason is None:
                self._handles += [self._hook_on(row, weakref.ref(table), lock, index)
                                  for index, row in enumerate(table.rows) if row.owner.requires_grad and not isinstance(row.part, Block)
                                  and row.param.numel() * row.grad_dtype.itemsize >= hook_bytes()]

    def _hook_on(self, row, table, lock, index):
        if not is_dtensor(row.owner):
            return row.param.register_post_accumulate_grad_hook(_hook(table, lock, index))
        self._fsdp_norm = self._fsdp_norm or FsdpNorm()
        return row.owner.register_post_accumulate_grad_hook(self._fsdp_norm.hook(table, lock, index))

    def settle(self):
        """Forgets sums of gradients that may have been changed where the tables cannot see it, before a step looks."""
        if self._fsdp_norm:
            self._fsdp_norm.settle()

    def warn_of_unused(self, tables):
        """Warns once if sums of the last step could not be used, and why."""
        if self._fsdp_norm:
            if self._fsdp_norm.why:
                self._warn_once(self._fsdp_norm.why)
        elif self._handles and in_ranks():
            self._warn_once("other ranks may change gradients after backward without a trace, so the "
                            "step reads all of them once more")
        elif changed := sum([table.summed_rows()[1] for table in tables]):
            self._warn_once(f"{changed} gradients were changed after backward, so the step read them "
                            "once more")

    def _warn_once(self, reason):
        key = reason.lstrip("0123456789")
        if key not in self._warned:
            self._warned.add(key)
            warn(f"altgrad.optim.{self._owner}: norm_in_backward: {reason}")


class EarlyNorm:
    """Runs the first sweep of an optimizer's next step for parts of gradients that are complete before it."""

    def __init__(self):
        self._built, self._rows = None, {}

    def take(self, optimizer, params):
        """Sums the gradients that these parameters have, where a step can take that. One thread steps and sums."""
        if optimizer._built is not self._built:
            self._built = optimizer._built
            self._rows = {id(row.param): (table, index) for table in (self._built.tables if self._built else ())
                          if table.unsummed() is None for index, row in enumerate(table.rows)
                          if row.param.numel() >= _WORTH_CHUNKS * chunk()}
        for param in params:
            if found := self._rows.get(id(param)):
                table, row = found
                table.sum(row)


def _hook(held, lock, row):
    def sum_gradient(param):
        table = held()
        # If a step runs in another thread, this gradient is summed in its own step.
        if table is None or in_ranks() or not lock.acquire(blocking=False):
            return
        try:
            table.sum(row)
        finally:
            lock.release()
    return sum_gradient


def in_ranks():
    """Whether there are other ranks. Their collectives write into gradients without raising a version counter."""
    dist = torch.distributed
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
