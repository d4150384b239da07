"""The model gives what can be said without it: of kernels small enough to count by hand."""

import pytest

import flow
import machine
import simulate
from kernels import Unaligned, in_flight
from sass import Function, Instruction

MACHINE = machine.machines()["H200"]


def instruction(text, stall=1, sets=7, waits=0, address=0):
    return Instruction(address, text, (stall | sets << 5 | 7 << 8 | waits << 11) << 41)


def code(*rows):
    return [(instruction(*row), False) for row in rows]


class Sweep:
    """One with a loop of `loop`, that each of a chunk's threads goes round `rounds` times."""
    registers, shared, width, warps_per_chunk = 32, 0, 16, 8
    entry = end = code(("S2R R0, SR_TID.X", 1, 7, 0))
    before, after = [], []

    def __init__(self, loop, rounds):
        self.loop, self.rounds = loop, rounds

    def moved(self, instruction):
        return self.width if instruction.bytes() == self.width else 0

    def rounds_of(self, warp, elements):
        return self.rounds


COPY = code(("LDG.E.128 R4, [R2.64]", 4, 0, 0), ("STG.E.128 [R8.64], R4", 4, 7, 1))


def simulated(sweep, chunks):
    return simulate.run([simulate.Job(MACHINE, sweep, chunks, 4096)])[0]


def bandwidth():
    return MACHINE.bytes_per_cycle() / MACHINE.part()[1]


def test_a_copy_reaches_the_copy_rate():
    result = simulated(Sweep(COPY, 4), 50_000)
    assert 0.98 < result.bytes / result.cycles / bandwidth() <= 1
    parts = MACHINE.part()[1]
    assert result.bytes == round(50_000 / parts) * 8 * 4 * 2 * 512


def test_a_single_copy_takes_the_latencies():
    cycles = simulated(Sweep(COPY, 1), 1).cycles  # to the memory and back, and to it again
    assert 1.5 * MACHINE.memory_cycles <= cycles < 1.8 * MACHINE.memory_cycles


def test_arithmetic_is_bound_by_issue():
    result = simulated(Sweep(code(*[("FFMA R0, R1, R2, R3", 1)] * 200), 10), 20_000)
    assert result.issue > 0.95
    assert result.bytes == 0


def test_one_pipe_is_slower_than_issue():
    result = simulated(Sweep(code(*[("MUFU.RCP R0, R1", 1)] * 50), 10), 20_000)
    assert result.issue == pytest.approx(1 / MACHINE.intervals["xu"], rel=0.05)


def test_warps_of_a_block_wait_for_each_other():
    class Late(Sweep):
        def rounds_of(self, warp, elements):
            return self.rounds if warp == 7 else 1
    late = Late(code(("FFMA R0, R1, R2, R3", 15)), 1000)
    late.after = code(("BAR.SYNC 0x0", 1), *[("FFMA R0, R1, R2, R3", 15)] * 100)
    assert simulated(late, 1).cycles > 15 * 1100


def test_loads_on_their_way_end_at_the_first_wait():
    load = "LDG.E.128 R4, [R2.64]"
    assert in_flight(code((load, 1, 0), (load, 1, 1), ("FADD R0, R4, R4", 1, 7, 3), (load, 1, 0))) == 2 * 512
    assert in_flight(code((load, 1, 0), ("FADD R0, R4, R4", 1, 7, 1), (load, 1, 1))) == 512


def function(*texts):
    made = Function("made")
    made.instructions = [instruction(text, address=16 * n) for n, text in enumerate(texts)]
    return made


def test_ways_are_told_apart_by_their_accesses():
    loop = flow.Flow(function(
        "S2R R0, SR_TID.X", "LDG.E.128 R4, [R2.64]", "@P0 BRA 0x60", "LDG.E.128 R4, [R2.64]", "FADD R0, R4, R4",
        "FADD R0, R4, R4", "STG.E.128 [R8.64], R4", "@P1 BRA 0x10", "EXIT"))
    (head,) = loop.loops
    assert {key: loop.cost(way) for key, way in loop.around(head).items()} == {(1, 1): 4, (2, 1): 7}


def test_elements_of_unaligned_streams_are_counted_by_their_bytes():
    made = function(
        "S2R R0, SR_TID.X", "LDG.E.64.CONSTANT R2, [R2.64]", "LDG.E R4, [R2.64]", "LDG.E.U16 R5, [R6.64]", "STG.E.U16 [R6.64], R5",
        "@P1 BRA 0x20", "@P0 BRA 0x10", "EXIT")
    phase = {"read": 6, "written": 2, "per_block": 1}
    sweep = Unaligned(made, phase, [4, 2])
    assert (sweep.rounds + sweep.last, sweep.elements(), len(sweep.loop)) == (16, 1, 4)
    assert [sweep.moved(i) for i in made.instructions] == [0, 0, 4, 2, 2, 0, 0, 0]
    assert sweep.rounds_of(7, 4096) + sweep.last == 16 and sweep.rounds_of(7, 224) == -1


def test_a_call_that_does_not_return_is_a_jump():
    loop = flow.Flow(function("LDG.E.128 R4, [R2.64]", "@P0 CALL.REL.NOINC 0x30", "BRA 0x0", "EXIT"))
    assert list(loop.loops) == [0]
    assert loop.ways(0, loop.exits())


def test_blocks_that_fit_on_a_processor():
    assert [MACHINE.resident_blocks(r, 0) for r in (32, 40, 52, 64, 65, 128)] == [8, 6, 4, 4, 3, 2]
    assert MACHINE.resident_blocks(32, 47 << 10) == 4
