"""One program on one memory: the reference, host code and interpreted PTX, byte by byte."""

import dataclasses

import hostrun
import inputs
import program
from buffers import Memory
from values import Rows


class Different(Exception):
    """Two executions of one step disagree."""


@dataclasses.dataclass
class Count:
    runs: int = 0
    elements: int = 0

    def add(self, rows):
        self.runs += 1
        self.elements += sum(rows.numel)


TOTAL = Count()


def fresh_inputs(compiled, values, rows, rng, special):
    """New codes in every stream that is only read."""
    values = dict(values)
    for name, access, _, kind in compiled.signature:
        if kind.startswith("!altgrad.tensors") and access == "in":
            form = inputs.formats.of_list(kind)[0]
            values[name] = inputs.codes(rng, form, sum(rows.sizes(name)), special)
    return values


def executors(compiled, ptx):
    """(name, function of a memory) for everything that can run the program here."""
    found = []
    for target in compiled.targets:
        if target.startswith("x86-64-"):
            level = target.removeprefix("x86-64-")
            if hostrun.runs(level):
                found.append((f"cpu:{level}", hostrun.HostPlan(compiled, level).run))
    if ptx:
        import ptxrun
        for target in compiled.targets:
            if target.startswith("sm_"):
                found.append((target, ptxrun.PtxPlan(compiled, target, **ptx).run))
    return found


def agree(compiled, machines, start, values, case):
    """Runs one step of `values` from `start` on all `machines`; returns the memory that each has left.

    Raises Different, with `case`, where one leaves another byte than the reference.
    """
    expected = start.twin(reference(compiled, start.rows, values))
    for name, run in machines:
        got = start.twin()
        run(got)
        TOTAL.add(start.rows)
        words = got.difference(expected)
        if words:
            raise Different(f"{case}, {name}: {words} (the reference's)")
    return expected


def run_steps(compiled, rows, shifts, values, schedule, rng, ptx=None):
    """`schedule`: per step the share of special gradients and scalars to set before it."""
    machines = executors(compiled, ptx)
    for number, (special, scalars) in enumerate(schedule, 1):
        values = {**fresh_inputs(compiled, values, rows, rng, special), **scalars}
        start = Memory(compiled.signature, rows, shifts).fill(values)
        values = agree(compiled, machines, start, values, f"step {number}").values()
    return values


def reference(compiled, rows, values):
    streams = {n: v for n, v in values.items() if _is_stream(compiled, n)}
    scalars = {n: v for n, v in values.items() if not _is_stream(compiled, n)}
    return compiled.evaluator.run(rows, streams, scalars)


def _is_stream(compiled, name):
    return any(n == name and k.startswith("!altgrad.tensors")
               for n, _, _, k in compiled.signature)


def make_rows(sizes, groups, rng):
    return Rows(*inputs.rows_of(sizes, groups, rng))


__all__ = ["Different", "Memory", "Rows", "TOTAL", "executors", "make_rows", "program",
           "reference", "run_steps"]
