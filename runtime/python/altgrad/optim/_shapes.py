"""Which matrices a parameter of Muon holds: itself, a stack's, its filters as rows, or parts of its rows."""

import numbers
from math import prod

from .._binding.layout import is_dense


def matrices_of(group, param):
    """(rows, columns, how many) of the matrices that lie one behind the other in a parameter of a group.

    Raises ValueError where they do not, or where there is none.
    """
    shape, flat, size = tuple(param.shape), group["flatten"], group["split"]
    if param.ndim < 2:
        raise ValueError(f"has the shape {shape}, no matrix and no stack of matrices; put it into a group with "
                         "use_muon=False, which takes AdamW")
    leading = 1 if flat or flat is None and param.ndim > 3 else param.ndim - 1
    rows, columns, count = shape[leading - 1], prod(shape[leading:]), prod(shape[:leading - 1])
    # Within a row any order of the elements is fine: turned columns turn the result's.
    if not param.is_contiguous() and not (leading == 1 and param.stride(0) >= columns and is_dense(param[0])):
        kind = "a matrix" if leading == 1 else "a stack of matrices"
        raise ValueError("lies column by column in memory; make it .contiguous()" if param.ndim == 2 else
                         f"is {kind} with the strides {param.stride()}; make it .contiguous()")
    if size is None:
        return rows, columns, count
    if isinstance(size, bool) or not isinstance(size, numbers.Integral) or size < 1 or rows % size:
        raise ValueError(f"has {rows} rows, and split={size!r} is no whole number that divides them")
    return int(size), columns, count * (rows // int(size))
