"""What the evaluator computes with: scalars, lists of numbers, lists of codes, and the tensors they are of."""

import dataclasses

import numpy as np


@dataclasses.dataclass
class Value:
    """A scalar (one entry per tensor), or the elements of all tensors one after another.

    `set`: of the rows it has entries for; None: all.
    """
    array: np.ndarray
    element: bool
    set: int = None


@dataclasses.dataclass
class Reals:
    elements: np.ndarray
    factor: Value
    set: int


@dataclasses.dataclass
class Tensors:
    codes: np.ndarray
    set: int


@dataclasses.dataclass
class Rows:
    """One per tensor, or per unit of a tensor, set by set; `streams`: the set of each stream that is not of set 0;
    `blocks`: how many elements share a stored value, where it is not one; `columns`: how many columns they span
    where they are of several rows, else 0.

    `squares`: of streams of squares "rows" or "columns".
    `offset`: the index in the whole of a row's first element; `shape`: rows, columns, batch of its tensor here,
    `whole`: of what that is a slice of, and `tensor`: the first row of that. Units of a tensor lie behind each other.
    """
    numel: list
    group: list
    set: list = None
    streams: dict = dataclasses.field(default_factory=dict)
    blocks: dict = dataclasses.field(default_factory=dict)
    offset: list = None
    tag: list = None
    shape: list = None
    columns: dict = dataclasses.field(default_factory=dict)
    tensor: list = None
    whole: list = None
    squares: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        self.set = self.set or [0] * len(self.numel)
        self.offset = self.offset or [0] * len(self.numel)
        self.tag = self.tag or list(range(len(self.numel)))
        self.shape = self.shape or [(1, n, 1) for n in self.numel]
        self.tensor = self.tensor or list(range(len(self.numel)))

    def extents(self, row):
        """Rows, columns and batch of the whole; where none is given, it has what lies before the tensor, too."""
        if self.whole:
            return self.whole[row]
        rows, columns, batch = self.shape[row]
        before = self.offset[self.tensor[row]]
        if rows * batch == 1:
            return 1, before + columns, 1
        return (rows * batch + before // columns, columns, 1) if before else (rows, columns, batch)

    def own(self, which):
        """The rows of a set; None: all."""
        return np.flatnonzero([which in (None, s) for s in self.set]).astype(int)

    def begins(self, row):
        """Whether a row is the first of its tensor."""
        return self.tensor[row] == row

    def firsts(self, which):
        """The first rows of the tensors of a set."""
        return [row for row in self.own(which) if self.begins(row)]

    def joined(self, parts, rows):
        """Of each of `rows` the parts of all of them that are of its tensor, in turn."""
        first = np.array(self.tensor, int)[rows]
        if len(set(first)) == len(first):
            return parts
        return [np.concatenate([part for part, other in zip(parts, first) if other == own]) for own in first]

    def of(self, which):
        """Per element of a set its row."""
        own = self.own(which)
        return np.repeat(own, np.array(self.numel, int)[own])

    def among(self, which):
        """Which elements of all rows are of a set."""
        return np.isin(self.of(None), self.own(which))

    def sizes(self, stream):
        """Per row the stored values of a stream."""
        which, block = self.streams.get(stream, 0), self.blocks.get(stream, 1)
        if side := self.squares.get(stream):
            return [self.square(row, side) if s == which else 0 for row, s in enumerate(self.set)]
        return [self._values(row, block, self.columns.get(stream, 0)) if s == which else 0
                for row, s in enumerate(self.set)]

    def square(self, row, side):
        """How many elements a tensor's square of rows x rows or columns x columns has, by its first row."""
        return self.shape[row][side == "columns"] ** 2 if self.begins(row) and self.numel[row] else 0

    def _values(self, row, block, columns):
        if not columns:
            return -(-self.numel[row] // block)
        rows, length, batch = self.shape[row]
        return -(-rows * batch // block) * -(-length // columns) if self.begins(row) else 0

    def block_of(self, which, block, columns=0):
        """Per element of a set the number of its block, counted over the tensors of the set."""
        parts, before = [np.empty(0, int)], 0
        for row in self.own(which):
            places = np.arange(self.numel[row])
            if not columns or self.begins(row):
                start = before
            if columns:
                length = max(1, self.shape[row][1])
                places += self.offset[row] - self.offset[self.tensor[row]]
                own = places // length // block * -(-length // columns) + places % length // columns
            else:  # the offset is a multiple of the block
                own = (self.offset[row] + places) // block - self.offset[row] // block
            parts.append(own + start)
            before += self._values(row, block, columns)
        return np.concatenate(parts)

    def places_in(self, which, rows, columns):
        """Per element of a set its row and column in its block of several rows."""
        parts = [(np.empty(0, int), np.empty(0, int))]
        for row in self.own(which):
            places = np.arange(self.numel[row]) + self.offset[row] - self.offset[self.tensor[row]]
            length = max(1, self.shape[row][1])
            parts.append((places // length % rows, places % length % columns))
        return tuple(map(np.concatenate, zip(*parts)))
