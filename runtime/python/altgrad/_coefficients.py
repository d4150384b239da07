"""Coefficients of Newton-Schulz steps as a caller writes them."""

import numbers

_LARGEST = 2.0 ** 128  # of float32, in which products are


def rows_of(given, name):
    """Rows of a, b, c: one where `given` is three numbers, or those of each step. `name` is for the error.

    Raises ValueError for anything else.
    """
    try:
        rows = [[float(number) for number in row] for row in ([given] if is_one(given) else given)]
    except (TypeError, ValueError, LookupError):
        rows = []
    if not all([len(row) == 3 and all([abs(number) < _LARGEST for number in row]) for row in rows or [()]]):
        raise ValueError(f"{name} is {given!r}, neither three finite numbers nor three for each step")
    return rows


def is_one(given):
    """Whether they are the numbers of one row, which is that of every step."""
    return isinstance(given[0], numbers.Real)
