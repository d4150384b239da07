"""Partial sums over tensors of which only a part lies here: where the workspace has them, and their all-reduce over ranks."""

import ctypes

import torch

from .._bundle import ADD, ALL, MAX
from .._library import library

_INDICES = torch.int64, torch.bool, torch.int64, torch.int64


class PartialSums:
    """The sums over tensors of a TensorTable, of which other ranks have other parts.

        PartialSums(plan, bundle, rows, words)

    `words` is the workspace as int32. `phases` are those before which something is to be joined.
    """

    def __init__(self, plan, bundle, rows, words):
        self._plan, self._words = plan, words
        parted = {}
        for index, row in enumerate(rows):
            if row.at and row.at.parted and row.share.set:
                parted.setdefault(row.share.set, []).append((index, row))
        self._sums = {}
        # In one order on all ranks, whichever sets each of them is in.
        for ranks in sorted(parted, key=lambda ranks: (len(ranks.members), ranks.members)):
            for number, (_, phase, of, reduction) in enumerate(bundle.partials):
                if mine := [(index, row) for index, row in parted[ranks] if row.set == of]:
                    self._sums.setdefault(phase, {}).setdefault(ranks, []).append((number, reduction, mine))
        self.phases, self._made = self._sums.keys(), {}

    def of(self, phase, present):
        """The TensorAllReduce of a phase, None without any; `present` has a byte for each row that takes part in this step."""
        if phase not in self._sums:
            return None
        if self._made.get(phase, (None, None))[0] != present:
            self._made[phase] = present, TensorAllReduce(self._words, [
                (ranks, reduction, [self._place(number, index) if present[index] else -1 for index, _ in rows],
                 [row.share.in_set for _, row in rows])
                for ranks, sums in self._sums[phase].items() for number, reduction, rows in sums])
        return self._made[phase][1]

    def _place(self, number, row):
        phase, reduction, offset = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_uint64()
        library().altgrad_partial_at(self._plan.handle, number, row, *map(ctypes.byref, (phase, reduction, offset)))
        return offset.value // 4


class TensorAllReduce:
    """What this rank has of sums over tensors, for an all-reduce with the ranks that have the other parts of them.

    `entries` has (RankSet, reduction, indices of int32 words, whether they are counted here) of each; an index is -1 where
    the tensor takes no part in this step. A host waits for none of its calls.
    """

    def __init__(self, words, entries):
        self._words, together = words, {}
        for ranks, reduction, places, counted in entries:
            kind = reduction if reduction in (ALL, MAX) else ADD
            of = together.setdefault((ranks, kind), ([], []))
            of[0].extend(places)
            of[1].extend(counted)
        self._calls = [(ranks, kind, *self._indices(*of)) for (ranks, kind), of in together.items()]

    def _indices(self, places, counted):
        """What is read, whether it is counted, which results are of use here, and where they go."""
        here = [index for index, place in enumerate(places) if place >= 0]
        return [torch.tensor(of, dtype=dtype, device="cpu").to(self._words.device) for dtype, of in zip(_INDICES, (
            [max(place, 0) for place in places], [place >= 0 and once for place, once in zip(places, counted)],
            here, [places[index] for index in here]))]

    def all_reduce(self):
        """Puts the sums of all ranks in the place of this rank's shares; as many on every rank of a set."""
        for ranks, kind, places, kept, here, there in self._calls:
            words = self._words[places]
            # All are fine where the worst of the negatives is one that is fine.
            values = -words.double() if kind == ALL else words.view(torch.float32).double()
            values = values.where(kept, {ALL: -1.0, MAX: -float("inf")}.get(kind, 0.0))
            values = ranks.sum(values) if kind == ADD else ranks.worst(values)
            self._words[there] = (-values.int() if kind == ALL else values.float().view(torch.int32))[here]


def merge_verdicts(stops):
    """The same stops, with verdicts of several sets at the last of them: other ranks have other sets, and stop as often."""
    early = [stop for stop in stops if stop[1] and {(word.reduction, word.sum) for word in stop[1]} == {(ALL, "")}]
    if len(early) < 2:
        return list(stops)
    kept = [stop for stop in stops if stop not in early]
    merged = early[-1][0], tuple([word for _, words in early for word in words])
    return sorted([*kept, merged], key=lambda stop: (stop[0], {word.reduction for word in stop[1]} == {MAX}))
