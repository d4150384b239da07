"""Which matrices a parameter of Muon holds: itself, a stack's, its filters as rows, or parts of its rows."""

import numbers
from dataclasses import replace
from itertools import accumulate
from math import gcd, prod
from typing import NamedTuple

from .._binding.layout import is_dense, same_order
from .._binding.shards import shape_of


class Matrices(NamedTuple):
    """The matrices of a parameter, whose rows are those of its `leading` dimensions.

    They have as many rows each as `sizes` says, one behind the other, `times` over. `apart`: each is a tensor of its
    own to the step, as matrices of several sizes are; else all of them are units of one. `turned`: the step takes
    columns for rows, and so do `sizes` and `columns`.
    """

    sizes: tuple
    columns: int
    times: int
    leading: int
    apart: bool = False
    turned: bool = False

    @property
    def count(self):
        return len(self.sizes) * self.times

    @property
    def unit(self):
        """Of how many elements each of several matrices is a multiple; 0: there is one."""
        return gcd(*self.sizes) * self.columns if self.count > 1 else 0

    def by_shape(self, shape):
        """The same, but turned where they have more columns than rows. Raises ValueError for parts of a matrix."""
        if max(self.sizes) >= self.columns <= min(self.sizes):
            return self
        if self.sizes != shape[self.leading - 1:self.leading]:
            raise ValueError(f"has {self.count} parts of its rows, some with more columns than rows, and "
                             "red_dim='by_shape' is for whole matrices and stacks: make parameters of the parts")
        return self._replace(sizes=(self.columns,), columns=self.sizes[0], turned=True)

    def unit_shape(self, shape):
        """The shape of a state that has one value for each row, beside a parameter of this shape."""
        kept = [*range(self.leading - 1), *range(self.leading, len(shape))] if self.turned else range(self.leading)
        return tuple([size if place in kept else 1 for place, size in enumerate(shape)])

    def order(self, shape):
        """The strides with which the rows of a parameter of this shape lie one behind the other."""
        strides, step = [0] * len(shape), 1
        for place in reversed(self.places(len(shape))):
            strides[place], step = step, step * shape[place]
        return tuple(strides)

    def places(self, dims):
        """The dimensions of a parameter in the order of memory."""
        rows = [self.leading - 1] * self.turned
        return [*[place for place in range(dims) if place not in rows], *rows]


class Piece(NamedTuple):
    """A matrix of a parameter that is a tensor of its own to the step; `first` is its first element."""

    first: int
    rows: int
    columns: int
    tag: int


def matrices_of(group, param):
    """The Matrices of a parameter of a group. Raises ValueError where there are none."""
    shape, flat, split = shape_of(param), group["flatten"], group["split"]
    if len(shape) < 2:
        raise ValueError(f"has the shape {shape}, no matrix and no stack of matrices; put it into a group with "
                         "use_muon=False, which takes AdamW")
    leading = 1 if flat or flat is None and len(shape) > 3 else len(shape) - 1
    rows, columns, count = shape[leading - 1], prod(shape[leading:]), prod(shape[:leading - 1])
    if split is None:
        return Matrices((rows,), columns, count, leading)
    if not isinstance(split, tuple | list):
        if not _is_size(split) or rows % split:
            raise ValueError(f"has {rows} rows, and split={split!r} is no whole number that divides them")
        return Matrices((int(split),), columns, count * (rows // int(split)), leading)
    if not all(map(_is_size, split)) or sum(split) != rows:
        raise ValueError(f"has {rows} rows, and split={split!r} has to name parts of 1 row or more, in whole numbers, "
                         f"that add up to {rows}")
    if leading < len(shape) - 1:
        raise ValueError(f"has the shape {shape}, filters with {columns} numbers each, and split={split!r} is for "
                         "matrices; filters in groups have equal parts: say how many rows one has")
    sizes = tuple(map(int, split))
    if len(set(sizes)) == 1:
        return Matrices(sizes[:1], columns, count * len(sizes), leading)
    return Matrices(sizes, columns, count, leading, apart=True)


def _is_size(size):
    return isinstance(size, numbers.Integral) and not isinstance(size, bool) and size > 0


def lies_by_rows(param, matrices):
    """Whether the rows of these matrices lie one behind the other; if not, kernels work on a copy that does.

    Within a row any order of the elements is fine: turned columns turn the result's.
    """
    columns = matrices.columns
    if matrices.turned:
        return same_order(param, matrices.order(param.shape)) and not param.is_neg()
    return param.is_contiguous() or (prod(param.shape[1:]) == columns and param.stride(0) >= columns and is_dense(param[0]))


def in_pieces(optimizer, rows):
    """The rows of a table, those of matrices that are apart once for each of them, with its `piece`.

    All parameters say the tags, so that none depends on which have gradients. Those that pieces need beyond their
    parameter's come from above.
    """
    if not any([row.matrices and row.matrices.apart for row in rows]):
        return rows
    matrices = [optimizer._matrices_of(group, param) for group in optimizer.param_groups for param in group["params"]]
    more = [0, *accumulate([of.count - 1 if of and of.apart else 0 for of in matrices])]
    return [piece for row in rows for piece in _pieces(row, _LAST_TAG - more[row.place])]


_LAST_TAG = (1 << 24) - 1  # of altgrad_tensor


def _pieces(row, last):
    of = row.matrices
    if not of or not of.apart or not prod(shape_of(row.owner)):
        return [row]
    sizes = of.sizes * of.times
    begins = [0, *accumulate(sizes)]
    return [replace(row, piece=Piece(begin * of.columns, size, of.columns, last - place + 1 if place else row.place))
            for place, (begin, size) in enumerate(zip(begins, sizes))]
