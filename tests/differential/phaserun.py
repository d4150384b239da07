"""Runs chosen phases of a bundle on chosen items, in host code or the interpreter, on tables a test may fill and look into."""

import ctypes

import numpy as np

import compare
import evaluator
import hostrun
import program
import ptxrun
import softmath as soft


def can_run(target):
    level = target.removeprefix("x86-64-")
    return hostrun.runs(level) if level in program.HOST else ptxrun.available()


class Host:
    def __init__(self, compiled, target):
        self.library, self.level = ctypes.CDLL(compiled.path), target.removeprefix("x86-64-")

    def map(self, tables):
        pass

    def launch(self, symbol, parameters):
        *_, begin, end = parameters.view(np.int64)
        getattr(self.library, f"{symbol}_{self.level}")(
            ctypes.c_void_p(parameters.ctypes.data), ctypes.c_int64(begin), ctypes.c_int64(end))


class Ptx:
    def __init__(self, compiled, target, make_plan=ptxrun.PtxPlan):
        self.plan = make_plan(compiled, target)

    def map(self, tables):
        """Words that a test has filled count as initialised, and so do the others."""
        for address, size, flags in tables.regions(reads_out=True):
            if size:
                done = self.plan.lib.ptx_map(self.plan.vm, address, address, size, flags & ~ptxrun.UNINITIALISED)
                self.plan._check(done, "map")

    def launch(self, symbol, parameters):
        self.plan._launch(symbol, parameters)


def machine(compiled, target, *make_plan):
    return (Host if target.startswith("x86") else Ptx)(compiled, target, *make_plan)


def run(on, tables, wanted=lambda phase: True):
    on.map(tables)
    for phase in tables.manifest["phases"]:
        if wanted(phase):
            on.launch(phase["symbol"], tables.parameters(phase))


def words(tables):
    """The 32-bit words of every chunk [word][chunk] and of every row [word][row]."""
    chunks = tables.chunk_words.view(np.uint32).reshape(-1, max(1, len(tables.chunk_list)))
    rows = tables.row_words.view(np.uint32).reshape(len(tables.rows), -1)[:, ::2]
    return chunks, rows.T


def holds(where, numbers):
    """Whether one of the words has these numbers; any NaN is a NaN."""
    if numbers.dtype == bool:
        numbers = -numbers.astype(np.int32)
    if numbers.dtype == np.int32:
        return bool((where == numbers.view(np.uint32)).all(axis=1).any())
    same = where == numbers.view(np.uint32)
    with np.errstate(invalid="ignore"):
        same |= np.isnan(where.view(np.float32)) & np.isnan(numbers)
    return bool(same.all(axis=1).any())


class Recorder(evaluator.Evaluator):
    """The evaluator, which keeps the partial sums of every reduction: (kind, own rows, of chunks, of rows)."""

    def __init__(self, plain):
        self.__dict__.update(plain.__dict__)
        self.sums = []

    def _fold(self, kind, elements, scope, which):
        own = self.rows.own(which)
        parts = np.split(elements, np.cumsum(np.array(self.rows.numel, int)[own]))[:len(own)]
        chunks = [soft.reduce_chunks(kind, part) for part in parts]
        whole = self.rows.joined(chunks, own) if scope == "tensor" else chunks
        totals = np.array([soft.fold_chunks(kind, part) for part in whole], elements.dtype)
        self.sums.append((kind, own, np.concatenate(chunks), totals))
        return super()._fold(kind, elements, scope, which)


def recorded(compiled, memory):
    """What the reference leaves in memory, and its partial sums."""
    recorder = Recorder(compiled.evaluator)
    values = memory.values()
    streams = {n: v for n, v in values.items() if n in memory.streams}
    after = recorder.run(memory.rows, streams, {n: v for n, v in values.items() if n not in streams})
    return memory.twin(after), recorder.sums


def sums_missing(compiled, target, memory, expected, sums, *make_plan):
    """The first partial sum of the reference that the run did not leave in its workspace, in words, or None."""
    got = memory.twin()
    tables = ptxrun.Tables(compiled.manifest, got)
    run(machine(compiled, target, *make_plan), tables)
    in_chunks, in_rows = words(tables)
    row_of = np.array([r for r, _ in tables.chunk_list])
    for number, (kind, own, chunks, rows) in enumerate(sums):
        if not holds(in_chunks[:, np.isin(row_of, own)], chunks):
            return f"reduction {number} ({kind}): its chunks' partial sums are nowhere"
        if not holds(in_rows[:, own], rows):
            return f"reduction {number} ({kind}): its tensors' sums are nowhere"
    return got.difference(expected)


__all__ = ["can_run", "compare", "holds", "machine", "recorded", "run", "sums_missing", "words"]
