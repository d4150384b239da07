"""Sums over ranks with the bits of one process: of the partial sums of chunks that all ranks have, in one order."""

import ctypes
from itertools import accumulate

import torch

from .._core import chunk
from .._library import library
from .._plan import Plan
from .workspace import Workspace

# Kinds of phases that read what sweeps have left of chunks, and no tensor: ALTGRAD_FOLD and ALTGRAD_TOTAL.
_SUMS = 1, 2


class ReproducibleSums:
    """The sums of a TensorTable whose rows are this rank's parts of tensors, as one process has them.

        ReproducibleSums(table, ranks)

    All ranks, a RankSet, make it. Raises ValueError on all of them unless they have rows of the same tensors, and the parts of each
    tensor make up the whole and are cut between chunks. `take(phase, present)` puts the sums of the wholes in the place
    of this rank's before a phase.
    """

    def __init__(self, table, ranks):
        self._table, self._ranks, bundle, rows = table, ranks, table.bundle, table.declared
        # Not the matrix, which says nothing of a sum.
        if (other := ranks.agree(repr([(of.whole, of.group, of.set, of.tag, of.units) for of in rows]))) is not None:
            raise ValueError(f"rank {other} steps other tensors than rank 0, and sums with the bits of one process need "
                             "parts of all tensors on all ranks")
        self._plan, groups = Plan(bundle, table.context.name), 1 + max([of.group for of in rows])
        mine = torch.tensor([[of.offset, of.numel, self._chunks_of(of, groups)] for of in rows],
                            dtype=torch.int64, device="cpu")
        gathered = ranks.gather(mine.view(-1)).view(-1, len(rows), 3).tolist()
        self._parts = [_ranks_in_order([part[row][:2] for part in gathered], of.whole) for row, of in enumerate(rows)]
        self._chunks = [[chunks for *_, chunks in of] for of in gathered]
        self._plan.bind_tensors([_declared(of, of.whole, 0) for of in rows], groups)
        apart = float(self._plan.partials()[0] != table.plan.partials()[0])
        # A number of a tensor counts where the first element is, and is 0 on other ranks.
        if any([word.sum for of in bundle.exchanges for word in of.words]) and (bundle.partials or ranks.worst(apart)):
            raise ValueError("the rule adds up numbers of tensors or of rows over all parameters, and these have the bits of one "
                             "process only where each rank has all of every parameter: leave out reproducible=True")
        self._workspace = Workspace(self._plan, table.context, sums=True)
        self._kinds, self._present = bundle.kinds, None

    def _chunks_of(self, declared, groups):
        """How many chunks one tensor has."""
        self._plan.bind_tensors([_declared(declared, declared.numel, declared.offset)], groups)
        return self._plan.partials()[2]

    def _lay(self, present):
        """Finds where each chunk of the wholes is in what is gathered."""
        library().altgrad_bind_present(self._plan.handle, present, len(present))
        counts = [[chunks * there for chunks, there in zip(of, present)] for of in self._chunks]
        begins = [[0, *accumulate(of)] for of in counts]
        self._most, self._present = max(map(sum, counts)), present
        self._places = torch.tensor([rank * self._most + begins[rank][row] + index for row, ranks in enumerate(self._parts)
                                     for rank in ranks for index in range(counts[rank][row])],
                                    dtype=torch.int64, device=self._table.context.device)

    @torch.no_grad()
    def take(self, phase, present):
        if present != self._present:
            self._lay(present)
        own, whole = self._table.words(), self._workspace.every()
        (begin, mine), (end, chunks) = _chunks_in(self._table.plan, own), _chunks_in(self._plan, whole)
        given = mine.new_zeros(len(mine), self._most)
        given[:, :mine.shape[1]] = mine
        gathered = self._ranks.gather(given.view(-1)).view(-1, *given.shape).transpose(0, 1).reshape(len(given), -1)
        chunks[:] = gathered[:, self._places]
        if begin == end:  # as many rows: what was found of each tensor is the same on all ranks
            whole[:begin] = own[:begin]
        for first in range(phase):  # a rule's sum may be older than the phase that reads it
            if self._kinds[first] in _SUMS:
                self._plan.run(*self._workspace.memory, first, first + 1, self._table.context.stream())
        for offset, place in self._words(phase, present):
            own[place // 4] = whole[offset // 4]

    def _words(self, phase, present):
        """(place in the workspace of the wholes, place in the table's) of each word that others may join."""
        bundle = self._table.bundle
        for exchange in bundle.exchanges:
            yield from [(offset, offset) for _, offset, *_ in exchange.words if exchange.phase == phase]
        for number, (_, at, of, _) in enumerate(bundle.partials):
            for index, row in enumerate(self._table.rows):
                if at == phase and row.set == of and present[index] and row.at and row.at.parted:
                    yield tuple([_place(plan, number, index) for plan in (self._plan, self._table.plan)])


def _declared(of, numel, offset):
    """What Plan.bind_tensors takes for a row with other elements."""
    return numel, of.group, of.set, of.tag, (of.rows, of.columns), of.units, offset, of.whole


def _place(plan, number, row):
    phase, reduction, offset = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_uint64()
    library().altgrad_partial_at(plan.handle, number, row, *map(ctypes.byref, (phase, reduction, offset)))
    return offset.value


def _chunks_in(plan, words):
    """(how many words lie in front, the partial sums as [words, chunks]) of a workspace."""
    offset, count, chunks = plan.partials()
    return offset // 4, words[offset // 4:][:count * chunks].view(count, chunks)


def _ranks_in_order(parts, numel):
    """The ranks that have parts of a tensor, in the order of elements, the first one of several that have the same."""
    ranks = {}
    for rank, (first, count) in enumerate(parts):
        if count:
            ranks.setdefault(first, rank)
    end = 0
    for first in sorted(ranks):
        if first != end or first % chunk():
            break
        end += parts[ranks[first]][1]
    if end != numel:
        spans = ", ".join([f"{first} to {first + count}" for first, count in parts])
        raise ValueError(f"the ranks have elements {spans} of a tensor of {numel}, and sums with the bits of one process "
                         f"need parts that make up the whole and are cut at multiples of {chunk()}")
    return [ranks[first] for first in sorted(ranks)]
