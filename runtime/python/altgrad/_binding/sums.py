"""Runs the first sweep of a step for each gradient during the backward pass."""

import weakref

import torch

from .._core import chunk, worth_a_hook
from .._warn import warn
from .layout import is_dtensor
from .reduced import Reduced

# Of a gradient that was summed before the step, one chunk is summed again: fewer chunks save too little.
_WORTH_CHUNKS = 8


class NormHooks:
    """Hooks on parameters that sum each gradient as backward finishes it."""

    def __init__(self):
        self._handles, self._said, self._owner, self._reduced = [], set(), "", None

    def __del__(self):
        self.remove()

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles, self._reduced = [], None

    def attach(self, owner, tables, turns):
        """Puts hooks on the parameters of these tables, in place of all earlier ones.

        `turns` is the lock under which steps of the optimizer run.
        """
        self.remove()
        self._owner = owner
        for table in tables:
            if reason := table.unsummed(parts=True):
                self._say(reason)
            elif reason is None:
                self._handles += [self._hook_on(row, weakref.ref(table), turns, index)
                                  for index, row in enumerate(table.rows) if row.owner.requires_grad
                                  and row.param.numel() * row.grad_dtype.itemsize >= worth_a_hook()]

    def _hook_on(self, row, table, turns, index):
        if not is_dtensor(row.owner):
            return row.param.register_post_accumulate_grad_hook(_hook(table, turns, index))
        self._reduced = self._reduced or Reduced()
        return row.owner.register_post_accumulate_grad_hook(self._reduced.hook(table, turns, index))

    def settle(self):
        """Forgets sums of gradients that may have been changed where the tables cannot see it, before a step looks."""
        if self._reduced:
            self._reduced.settle()

    def look(self, tables):
        """Warns once if sums of the last step could not be used, and why."""
        if self._reduced:
            if self._reduced.why:
                self._say(self._reduced.why)
        elif self._handles and in_ranks():
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


class Ahead:
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


def _hook(held, turns, row):
    def sum_gradient(param):
        table = held()
        # If a step runs in another thread, this gradient is summed in its own step.
        if table is None or in_ranks() or not turns.acquire(blocking=False):
            return
        try:
            table.sum(row)
        finally:
            turns.release()
    return sum_gradient


def in_ranks():
    """Whether there are other ranks. Their collectives write into gradients without raising a version counter."""
    dist = torch.distributed
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
