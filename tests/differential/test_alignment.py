"""Streams that are not 16-byte aligned, in every mix: a GPU does such a chunk element by element, with the same bits."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases
from buffers import Memory
from test_placement import compiled_case, expected_of

# Of a block that has all groups of elements, some of them, and less than one; chunks with and without a tail.
SIZES = [4096, 1024, 1027, 5, 300, 4103, 9000, 2048]
SHIFTS = [1, 2, 3, 4, 5, 6, 7, 0]
CASES = {"norm, 8 bits": ("adamw", "param=bf16 grad=bf16 master=f32 m=ocp.e5m2 copy=ocp.e4m3fn", "--unscale", "--clip"),
         "several sums": ("lamb", "param=f32 grad=bf16 m=bf16", "--clip"),
         "no division": ("lion", "param=f16 grad=f16")}
STREAMS = [(case, stream) for case, streams in (("norm, 8 bits", "g w master m v copy"), ("several sums", "g w m v"),
                                                ("no division", "g w m")) for stream in streams.split()]


def agree(compiled, memory, races=False):
    expected = expected_of(compiled, memory)
    for _, run in compare.executors(compiled, {"races": races} if ptxrun.available() else None):
        got = memory.twin()
        run(got)
        compare.TOTAL.add(memory.rows)
        assert got.difference(expected) is None


def filled(compiled, sizes, shifts, special=0.001, seed=4):
    rng = np.random.default_rng(seed)
    rows = compare.Rows(list(sizes), [0] * len(sizes))
    values = templatecases.start_values(compiled, rows, rng, special)
    values = compare.fresh_inputs(compiled, values, rows, rng, special)
    return Memory(compiled.signature, rows, shifts).fill(values)


@pytest.fixture(scope="module")
def programs():
    made = {}
    return lambda case: made.setdefault(case, None) or made.update({case: compiled_case(*CASES[case])}) or made[case]


@pytest.mark.parametrize("case, stream", STREAMS)
def test_one_stream_of_all_is_misaligned(programs, case, stream):
    """By 1 to 7 elements, another row by none: who looks at the other streams alone takes whole vectors."""
    compiled = programs(case)
    agree(compiled, filled(compiled, SIZES, {stream: SHIFTS}))


@pytest.mark.parametrize("case", CASES)
def test_rows_of_different_alignment(programs, case):
    """Beside a row with all streams aligned one with none, races looked for."""
    compiled = programs(case)
    shifts = {name: [0, 3 + index, 0, 1] for index, (name, _, _, kind) in enumerate(compiled.signature)
              if kind.startswith("!altgrad.tensors")}
    agree(compiled, filled(compiled, [4100, 4100, 1, 1300], shifts), races=True)


@pytest.mark.parametrize("special", [0.0, 1.0])
def test_rows_that_guards_let_through_and_stop(programs, special):
    """Where numbers are ordinary no group of elements is done twice; where none is all of them are."""
    compiled = programs("norm, 8 bits")
    agree(compiled, filled(compiled, [2048], {"g": [1]}, special))


def test_indices_of_elements_that_lie_apart():
    """A vector's elements are as far from each other as a block or a warp has threads."""
    compiled = program.Program("""
      altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %v: !altgrad.tensors<f32>, out %n: f32 per_tensor) {
        %wr = dequantize %w : !altgrad.tensors<f32>
        %vr = dequantize %v : !altgrad.tensors<f32>
        %we = element %wr
        %ve = element %vr
        %i = index : i64
        %place = arith.sitofp %i : i64 to f32
        %weighted = arith.mulf %we, %place : f32
        %sum = reduce add %weighted over tensor : f32
        %later = arith.mulf %weighted, %sum : f32
        %w1 = collect %later : f32 to !altgrad.reals
        %first = arith.addf %ve, %place : f32
        %v1 = collect %first : f32 to !altgrad.reals
        commit always %w1 to %w : !altgrad.tensors<f32>, %v1 to %v : !altgrad.tensors<f32>, %sum to %n : f32
      }""")
    agree(compiled, filled(compiled, [4097, 1030, 9000], {"w": [1, 2, 3], "v": [0, 1, 0]}))
