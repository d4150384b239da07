"""What the elements of each block are reduced to, for all of its elements, in the one order."""

import numpy as np

import softmath as soft


def reduced(kind, array, rows, over, which):
    """`over`: 1x32, 32x1, 16x16, 128x128."""
    down, across = map(int, over.split("x"))
    return _runs(kind, array, rows, across, which) if down == 1 else _tiles(kind, array, rows, down, across, which)


def _runs(kind, array, rows, columns, which):
    """Neighbours: pairs, then pairs of pairs."""
    numbers = rows.block_of(which, columns)
    table = np.full((numbers.max(initial=-1) + 1, columns), soft.NEUTRAL[kind])
    table[numbers, _places(numbers)] = array * array if kind == "sumsq" else array
    return soft.of_neighbours(kind, table)[numbers]


def _tiles(kind, array, rows, down, across, which):
    """Columns or squares: each column row by row, but of more than 16 rows two halves of it; then their tree."""
    halves = 1 + (down > 16)
    numbers = rows.block_of(which, down, across)
    row, column = rows.places_in(which, down, across)
    lanes = np.full((numbers.max(initial=-1) + 1) * halves * across, soft.NEUTRAL[kind])
    lane = (halves * numbers + row // (down // halves)) * across + column
    turn = _places(lane)
    for i in range(turn.max(initial=-1) + 1):
        here = np.flatnonzero(turn == i)
        lanes[lane[here]] = soft.accumulate(kind, lanes[lane[here]], array[here])
    return soft.tree(kind, lanes.reshape(-1, halves * across))[numbers]


def _places(numbers):
    """Of each entry how many before it have the same number."""
    order, places = np.argsort(numbers, kind="stable"), np.empty(len(numbers), int)
    places[order] = np.arange(len(order)) - np.searchsorted(numbers[order], numbers[order])
    return places
