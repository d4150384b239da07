"""Which matrices a parameter of Muon holds: itself, a stack's, its filters as rows, or parts of its rows."""

import numbers
from math import prod

from .._binding.layout import is_dense


def matrices_of(group, param):
    """(rows, columns, how many) of the matrices in a parameter of a group. Raises ValueError where there is none."""
    shape, flat, size = tuple(param.shape), group["flatten"], group["split"]
    if param.ndim < 2:
        raise ValueError(f"has the shape {shape}, no matrix and no stack of matrices; put it into a group with "
                         "use_muon=False, which takes AdamW")
    leading = 1 if flat or flat is None and param.ndim > 3 else param.ndim - 1
    rows, columns, count = shape[leading - 1], prod(shape[leading:]), prod(shape[:leading - 1])
    if size is None:
        return rows, columns, count
    if isinstance(size, bool) or not isinstance(size, numbers.Integral) or size < 1 or rows % size:
        raise ValueError(f"has {rows} rows, and split={size!r} is no whole number that divides them")
    return int(size), columns, count * (rows // int(size))


def lies_by_rows(param, matrices):
    """Whether the rows of these matrices lie one behind the other; if not, kernels work on a copy that does.

    Within a row any order of the elements is fine: turned columns turn the result's.
    """
    columns = matrices[1]
    return param.is_contiguous() or (prod(param.shape[1:]) == columns and param.stride(0) >= columns and is_dense(param[0]))
