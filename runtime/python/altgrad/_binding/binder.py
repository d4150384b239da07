"""Chooses what looks at an optimizer's groups and tensors in every step: native code for one torch, or the library
for all of them."""

import os
from collections import defaultdict
from functools import cache

import torch

from .._library import Error
from .._native import native
from .._warn import warn
from .groups import Groups
from .table import TensorTable
from .where import Where


def binder():
    """"native" or "python": what ALTGRAD_BINDER names. "auto", the default, is native code if there is any."""
    asked = os.environ.get("ALTGRAD_BINDER", "auto")
    if asked not in ("python", "native", "auto"):
        raise ValueError(f"ALTGRAD_BINDER is {asked!r}, not python, native or auto")
    if asked == "native":
        native()
    return _there_is() if asked == "auto" else asked


@cache
def _there_is():
    try:
        native()
    except Error as error:
        if error.status != "NOT_FOUND":
            warn(f"altgrad looks at tensors through libaltgrad_torch.so, more slowly: {error}")
        return "python"
    return "native"


def make_groups(param_groups, keys):
    """Groups in native code or Python, as `binder` says. Subclasses of list and dict are read in Python."""
    if binder() == "native" and type(param_groups) is list and all(
            [type(group) is dict and type(group.get("params")) is list for group in param_groups]):
        return native().Groups(param_groups, tuple(keys))
    return Groups(param_groups, keys)


def make_table(bundle, rows, groups, params, idle, state):
    """A TensorTable in native code or Python, as `binder` says. Subclasses with code of their own are read in Python."""
    plain = (type(state) in (dict, defaultdict)
             and all([type(state.get(row.param, _NOTHING)) is dict for row in rows])
             # Some tensor subclasses have a property of this name.
             and all([kind.grad is torch.Tensor.grad for kind in set(map(type, params))]))
    kind = NativeTable if binder() == "native" and plain else TensorTable
    return kind(bundle, rows, groups, params, idle, state)


_NOTHING = {}


class NativeTable:
    """TensorTable of table.py in native code: the one that LibTorch uses."""

    def __init__(self, bundle, rows, groups, params, idle, state):
        self.bundle, self.rows = bundle, rows
        self.where = Where(rows[0].param.device)
        table = native().Table(bundle.handle.value, rows, groups, params, idle, state)
        self.fresh, self.set_hypers, self.run = table.fresh, table.set_hypers, table.run
        self.set_tensors, self.results = table.set_tensors, table.results
        self.begin, self.advance, self.place = table.begin, table.advance, table.place
        self.statistics, self.sums, self.sum = table.statistics, table.sums, table.sum
        self.summed_rows = table.summed_rows
