"""Runs sweeps on the simulator, and walks one warp through the small phases."""

import os
import subprocess
import sys

import sass
from flow import WIDE
from machine import BLOCK_WARPS, WARP

FMA = {"FFMA", "FMUL", "FADD"}
HALF = {"IMAD", "HFMA2", "HADD2", "HMUL2", "DFMA", "DMUL", "DADD"}
XU = {"MUFU", "FCHK", "F2F", "I2F", "F2I", "POPC", "FLO"}
CONTROL = {"BRA", "BSSY", "BSYNC", "CALL", "RET", "EXIT", "WARPSYNC", "BREAK"}
OTHER = {"S2R", "S2UR", "LDC", "ULDC", "R2UR", "CS2R", "VOTE", "VOTEU", "REDUX"}
FENCE = {"MEMBAR", "ATOMG", "ATOM", "RED", "ERRBAR"}
UNITS = ("fma", "half", "alu", "xu", "load", "store", "shared", "control", "other", "barrier", "fence", "mma", "copy",
         "commit", "wait")


def unit(instruction):
    base = instruction.base
    for name, bases in (("fma", FMA), ("half", HALF), ("xu", XU), ("control", CONTROL), ("other", OTHER),
                        ("fence", FENCE), ("load", ("LDG", "LD")), ("store", ("STG", "ST")),
                        ("shared", ("LDS", "STS", "SHFL", "LDSM")), ("barrier", ("BAR",)), ("mma", ("HMMA",)),
                        ("copy", ("LDGSTS",)), ("commit", ("LDGDEPBAR",)), ("wait", ("DEPBAR",))):
        if base in bases:
            return name
    return "alu"


def lines(code, moved_by):
    """Of a part of a trace, as the simulator reads it. `moved_by`: bytes of streams that an instruction moves."""
    yield str(len(code))
    for i, jumps in code:
        moved = round(moved_by(i) * WARP)
        yield f"{UNITS.index(unit(i))} {i.stall} {i.sets} {i.releases} {i.waits} {moved} {int(jumps)}"


class Result:
    def __init__(self, line):
        cycles, moved, issue, flight = line.split()
        self.cycles, self.bytes = int(cycles), float(moved)
        self.issue, self.flight = float(issue), float(flight)


class Job:
    """A sweep over chunks of equally many elements."""

    def __init__(self, machine, sweep, chunks, elements):
        self.machine, self.sweep = machine, sweep
        resident = machine.resident_blocks(sweep.registers, sweep.shared)
        processors, parts = machine.part()
        per_block = BLOCK_WARPS // sweep.warps_per_chunk
        # As runtime/cuda/Kernels.cpp launches: a block for an item, or as many as the device holds, 4 to 8 a processor.
        most = 2**31 - 1 if per_block == 1 else processors * min(max(resident, 4), 8)
        self.header = [max(1, round(chunks / parts)), most, per_block, sweep.warps_per_chunk]
        self.resident = resident
        self.rounds = [sweep.rounds_of(warp, elements) for warp in range(sweep.warps_per_chunk)]

    def text(self):
        sweep = self.sweep
        none = lambda instruction: 0  # noqa: E731
        ahead = sweep.moved if sweep.width == WIDE else none  # tables are read by fewer bytes, too
        parts = ((sweep.entry, none), (sweep.before, ahead), (sweep.loop, sweep.moved), (sweep.after, sweep.moved),
                 (sweep.end, none))
        rows = [self.machine.words(self.resident), " ".join(map(str, self.header)), " ".join(map(str, self.rounds))]
        return "\n".join(rows + [line for part in parts for line in lines(*part)])


def simulator():
    """The path of the program; leaves with words where it has not been built."""
    here = os.path.join(os.path.dirname(__file__), "..", "..", "build", "bin", "gpu-simulator")
    path = os.path.normpath(os.environ.get("ALTGRAD_GPU_SIMULATOR", here))
    if not os.path.exists(path):
        sys.exit(f"no simulator at {path}: build it with ninja -C build gpu-simulator")
    return path


def run(jobs):
    """Results of jobs, in their order."""
    text = f"{len(jobs)}\n" + "\n".join(job.text() for job in jobs) + "\n"
    done = subprocess.run([simulator()], input=text, capture_output=True, text=True, env=sass.ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Result(line) for line in done.stdout.splitlines()]


def walk(machine, code, latency):
    """Cycles of a warp on its own; `latency` is that of loads."""
    slow = {"load": latency, "store": 20, "xu": machine.multi_cycles, "other": machine.multi_cycles,
            "shared": machine.shared_cycles, "fence": machine.cache_cycles}
    now, done = 0, [0] * 6
    for i, jumps in code:
        now = max([now] + [done[b] for b in range(6) if i.waits >> b & 1])
        end = now + slow.get(unit(i), 0)
        if i.sets < 6:
            done[i.sets] = max(done[i.sets], end)
        if i.releases < 6:
            done[i.releases] = max(done[i.releases], now + 12)
        now += max(1, i.stall) + (machine.jump_cycles if jumps else 0)
    return max([now] + done)
