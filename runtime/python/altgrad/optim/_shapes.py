"""Which matrices a parameter of Muon holds, as altgrad_table_find_matrices says it."""

import ctypes
import numbers
from ctypes import POINTER, c_char_p, c_int32, c_int64
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import NamedTuple

from .._binding.shards import shape_of
from .._core import core, int64s
from .._library import Error


class _Parts(ctypes.Structure):
    """altgrad_table_parts."""

    _fields_ = [("split", POINTER(c_int64)), ("count", c_int64), ("spelled", c_char_p), ("equal", c_int32),
                ("flat", c_int32), ("apart", c_int32), ("turns", c_int32), ("unturned", c_char_p),
                ("otherwise", c_char_p)]


class _Matrices(ctypes.Structure):
    """altgrad_table_matrices."""

    _fields_ = [("rows", c_int64), ("columns", c_int64), ("count", c_int64), ("unit", c_int64), ("leading", c_int64),
                ("apart", c_int32), ("turned", c_int32), ("split", POINTER(c_int64)), ("parts", c_int64)]


class Matrices(NamedTuple):
    """The matrices of a parameter, one behind the other: `count` of them, of whose rows the first has `rows`.

    Of `unit` elements each is a multiple, 0 where there is one. `apart`: each is a tensor of its own to the step, as
    matrices of several sizes are; else all of them are units of one. `turned`: the step takes columns for rows, and so
    do `rows` and `columns`. `strides`: those of rows that lie one behind the other; `units`: the shape of a state that
    has one value for each row.
    """

    rows: int
    columns: int
    count: int
    unit: int
    apart: bool
    turned: bool
    strides: tuple
    units: tuple
    native: _Matrices

    def lies_in(self, param):
        """Whether the rows of a parameter lie one behind the other; if not, kernels work on a copy that does."""
        if not param.numel():  # what another rank steps has not the shape of its whole, either
            return True
        return _lie(self.native, param.shape, param.stride())[0] and not (self.turned and param.is_neg())


def matrices_of(group, param, apart=False, unturned=None):
    """The Matrices of a parameter of a group. Raises ValueError where there are none.

    `apart`: several are tensors of their own. `unturned`: an argument of the group that has no form for transposes.
    """
    shape, flat, split = shape_of(param), group["flatten"], group["split"]
    equal = not isinstance(split, tuple | list)
    sizes = [size if _is_whole(size) else -1 for size in ([split] if equal else split)]
    said = _Parts((c_int64 * max(len(sizes), 1))(*sizes), len(sizes), None if split is None else repr(split).encode(),
                  equal, -1 if flat is None else flat, apart, group.get("red_dim") == "by_shape",
                  unturned and unturned.encode(), b"a group with use_muon=False, which takes AdamW")
    found = _Matrices()
    try:
        core().altgrad_table_find_matrices(ctypes.byref(said), len(shape), int64s(shape), ctypes.byref(found))
    except Error as error:
        raise ValueError(str(error)) from None
    found.said = said  # which has its numbers
    _, strides, units = _lie(found, shape, shape)
    return Matrices(found.rows, found.columns, found.count, found.unit, bool(found.apart), bool(found.turned), strides,
                    units, found)


def _is_whole(size):
    return isinstance(size, numbers.Integral) and not isinstance(size, bool) and abs(size) < 1 << 63


def _lie(native, shape, strides):
    wanted, units = int64s(strides), int64s(shape)
    fits = core().altgrad_table_lie(ctypes.byref(native), len(shape), int64s(shape), int64s(strides), wanted, units)
    return bool(fits), tuple(wanted), tuple(units)


def in_pieces(optimizer, rows):
    """The rows of a table, those of matrices that are apart once for each of them: the matrix is its `piece`.

    `more` are such matrices of the parameters before, so that no tag depends on which have gradients.
    """
    if not any([row.matrices and row.matrices.apart for row in rows]):
        return rows
    matrices = [optimizer._matrices_of(group, param) for group in optimizer.param_groups for param in group["params"]]
    more = [0, *accumulate([of.count - 1 if of and of.apart else 0 for of in matrices])]
    return [replace(row, piece=piece, more=more[row.place]) for row in rows for piece in _pieces(row)]


def _pieces(row):
    of = row.matrices
    return range(of.count) if of and of.apart and prod(shape_of(row.owner)) else [-1]


def whole_ways(kind):
    """What somebody may do whose ranks have parts of the matrices that a class multiplies, for the end of a sentence."""
    if kind.__name__ == "Muon":
        return "take altgrad.distributed.DistMuon"
    return "train under torch.nn.parallel.DistributedDataParallel, where each rank has all of them"
