"""Partial sums over tensors of which only a part lies here: where the workspace has them, and their all-reduce over ranks."""

import ctypes
import operator
from functools import reduce

import torch

from .._bundle import ALL, MAX
from .._library import library


class PartialSums:
    """The sums over tensors of a TensorTable, of which other ranks have other parts.

        PartialSums(plan, bundle, rows, words)

    `words` is the workspace as int32. `phases` are those before which something is to be joined.
    """

    def __init__(self, plan, bundle, rows, words):
        self._plan, self._words = plan, words
        parted = [(index, row) for index, row in enumerate(rows) if row.at and row.at.parted]
        self._sums = {}
        for number, (_, phase, of, reduction) in enumerate(bundle.partials):
            if mine := [(index, row) for index, row in parted if row.set == of]:
                self._sums.setdefault(phase, []).append((number, reduction, mine))
        self.phases = self._sums.keys()

    def of(self, phase, present):
        """The TensorAllReduce of a phase, None without any; `present` has a byte for each row that takes part in this step."""
        entries = []
        for number, reduction, rows in self._sums.get(phase, ()):
            places = [self._place(number, index) if present[index] else -1 for index, _ in rows]
            entries.append((reduction, *[torch.tensor(of, device="cpu") for of in (places, [row.at.counted for _, row in rows])]))
        return TensorAllReduce(self._words, entries) if entries else None

    def _place(self, number, row):
        phase, reduction, offset = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_uint64()
        library().altgrad_partial_at(self._plan.handle, number, row, *map(ctypes.byref, (phase, reduction, offset)))
        return offset.value // 4


class TensorAllReduce:
    """What this rank has of sums over tensors, for an all-reduce with the other ranks.

    `entries` has (reduction, indices of int32 words, whether they are counted here) of each; an index is -1 where the
    tensor takes no part in this step.
    """

    def __init__(self, words, entries):
        self._words, self._entries = words, entries

    def all_reduce(self, ranks):
        """Puts the sums of all ranks in the place of this rank's shares; as many on every rank."""
        self._write(ranks.gather(torch.cat([self._read(*share) for share in self._entries])))

    def _read(self, reduction, places, counted):
        words = self._words[places.clamp(min=0).to(self._words.device)]
        values = words.double() if reduction == ALL else words.view(torch.float32).double()
        kept = ((places >= 0) & counted).to(values.device)
        return values.where(kept, {ALL: 1.0, MAX: -float("inf")}.get(reduction, 0.0))

    def _write(self, gathered):
        begin = 0
        for reduction, places, _ in self._entries:
            of = gathered[:, begin:begin + len(places)]
            begin += len(places)
            whole = (of.amax(0) if reduction == MAX else of.amin(0) if reduction == ALL else
                     reduce(operator.add, of.unbind()))
            words = whole.int() if reduction == ALL else whole.float().view(torch.int32)
            there = (places >= 0).to(words.device)
            self._words[places.to(words.device)[there]] = words[there]


def merge_verdicts(stops):
    """The same stops, with verdicts of several sets at the last of them: other ranks have other sets, and stop as often."""
    early = [stop for stop in stops if stop[1] and {word.reduction for word in stop[1]} == {ALL}]
    if len(early) < 2:
        return list(stops)
    kept = [stop for stop in stops if stop not in early]
    merged = early[-1][0], tuple([word for _, words in early for word in words])
    return sorted([*kept, merged], key=lambda stop: (stop[0], {word.reduction for word in stop[1]} == {MAX}))
