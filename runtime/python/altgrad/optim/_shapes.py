"""Which matrices a parameter of Muon holds, as altgrad_core_find_matrices says it."""

import ctypes
import numbers
from ctypes import POINTER, c_char_p, c_int32, c_int64
from dataclasses import replace
from itertools import accumulate
from math import prod

from .._binding.shards import shape_of
from .._core import core, int64s
from .._library import Error, struct


# altgrad_core_matrix_options.
_MatrixOptions = struct("MatrixOptions", split=POINTER(c_int64), count=c_int64, spelled=c_char_p, equal=c_int32,
                        flat=c_int32, apart=c_int32, turns=c_int32, unturned=c_char_p, otherwise=c_char_p)


class Matrices(struct("_Matrices", rows=c_int64, columns=c_int64, count=c_int64, unit=c_int64, leading=c_int64,
                      apart=c_int32, turned=c_int32, split=POINTER(c_int64), parts=c_int64)):
    """altgrad_core_matrices, and `strides`: those of rows that lie one behind the other."""

    strides: tuple

    def lies_in(self, param):
        """Whether the rows of a parameter lie one behind the other; if not, kernels work on a copy that does."""
        if not param.numel():  # what another rank steps has not the shape of its whole, either
            return True
        return self._lie(param.shape, param.stride())[0] and not (self.turned and param.is_neg())

    def _lie(self, shape, strides):
        wanted = int64s(strides)
        fits = core().altgrad_core_matrix_layout(ctypes.byref(self), len(shape), int64s(shape), int64s(strides), wanted)
        return bool(fits), tuple(wanted)


def matrices_of(group, param, apart=False, unturned=None):
    """The Matrices of a parameter of a group. Raises ValueError where there are none.

    `apart`: several are tensors of their own. `unturned`: an argument of the group that has no form for transposes.
    """
    shape, flat, split = shape_of(param), group["flatten"], group["split"]
    equal = not isinstance(split, tuple | list)
    sizes = [size if _is_whole(size) else -1 for size in ([split] if equal else split)]
    options = _MatrixOptions.of(split=(c_int64 * max(len(sizes), 1))(*sizes), count=len(sizes),
                                spelled=None if split is None else repr(split), equal=equal,
                                flat=-1 if flat is None else flat, apart=apart,
                                turns=group.get("red_dim") == "by_shape", unturned=unturned,
                                otherwise="a group with use_muon=False, which takes AdamW")
    found = Matrices()
    try:
        core().altgrad_core_find_matrices(ctypes.byref(options), len(shape), int64s(shape), ctypes.byref(found))
    except Error as error:
        raise ValueError(str(error)) from None
    found.options = options  # which has its numbers
    found.strides = found._lie(shape, shape)[1]
    return found


# What a group says of the matrices in its parameters.
PARTS = "split", "flatten"


class PartsOfMatrices:
    """What a class has whose groups may say that a parameter holds several matrices, or filters that are one."""

    def _matrices_of(self, group, param):
        parts = {key: group.get(key) for key in PARTS}
        return None if parts == dict.fromkeys(PARTS) else matrices_of(parts, param)

    def _group_rule(self, group):
        # Where matrices begin is no option of a rule.
        split = group.get("split")
        return *super()._group_rule(group), (group.get("flatten"), tuple(split) if isinstance(split, list) else split)

    def _unit_of(self, options, matrices):
        return matrices.unit

    def _units_word(self, chosen):
        """The option with which each matrix is one of several, if that is not chosen already."""
        found = [self._matrices_of(group, param) for group in self.param_groups if any([group.get(key) for key in PARTS])
                 for param in group["params"]]
        return ("over=unit",) * ("over=unit" not in chosen and any([of and of.count != 1 and not of.apart for of in found]))


def _is_whole(size):
    return isinstance(size, numbers.Integral) and not isinstance(size, bool) and abs(size) < 1 << 63


def in_pieces(optimizer, rows):
    """The rows of a table, those of matrices that are apart once for each of them: the matrix is its `piece`.

    `more` are such matrices of the parameters before, so that no tag depends on which have gradients.
    """
    if not any([row.matrices and row.matrices.apart for row in rows]):
        return rows
    matrices = [optimizer._matrices_of(group, param) for group in optimizer.param_groups for param in group["params"]]
    more = [0, *accumulate([of.count - 1 if of and of.apart else 0 for of in matrices])]
    return [replace(row, piece=piece, more=more[row.index]) for row in rows for piece in _pieces(row)]


def _pieces(row):
    of = row.matrices
    return range(of.count) if of and of.apart and prod(shape_of(row.owner)) else [-1]
