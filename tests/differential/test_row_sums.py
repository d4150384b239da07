"""Sums of sweeps that store nothing, on hosts: rows in registers, then vectors, then elements, for every kind of tail."""

import functools

import numpy as np
import pytest

import compare
import phaserun
import program
import templatecases

# Every remainder of vectors and rows; chunks that are whole, one element less or more, and several.
SIZES = [*range(1, 4097, 37), *range(1, 70), 255, 256, 257, 511, 512, 513, 4064, 4080, 4095, 4096, 4097, 4352, 8191, 9000]
FINITE = """%less = arith.cmpf ord, %x, %x : f32
            %all = reduce and %less over step : i1
            %r2 = arith.select %all, %r1, %r1 : f32"""
INDEX = """%i = index : i64
           %mask = arith.constant 65535 : i64
           %low = arith.andi %i, %mask : i64
           %bits = arith.sitofp %low : i64 to f32
           %product = arith.mulf %bits, %x : f32
           %r1 = reduce add %product over step : f32"""
BODIES = {
    "a sum of squares": ("%r1 = reduce sumsq %x over step : f32", ["r1"]),
    "a sum and a conjunction": ("%r1 = reduce add %x over step : f32\n" + FINITE, ["r2"]),
    "a maximum": ("%r1 = reduce max %x over step : f32", ["r1"]),
    "more sums than registers": ("\n".join(
        f"%r{k} = reduce {kind} %x over step : f32" for k, kind in enumerate(["add", "sumsq", "add", "max", "sumsq"])),
        [f"r{k}" for k in range(5)]),
    "of the index": (INDEX, ["r1"]),
}


@functools.cache
def case(form, body):
    text, results = BODIES[body]
    tensors = f"!altgrad.tensors<{form}>"
    compiled = program.Program(f"""
      altgrad.step @s(in %p: {tensors}{"".join(f", out %o{name}: f32" for name in results)}) {{
        %pr = dequantize %p : {tensors}
        %x = element %pr
        {text}
        commit always {", ".join(f"%{name} to %o{name} : f32" for name in results)}
      }}""", ("x86-64-v3", "x86-64-v4"))
    rows = compiled.rows([SIZES])
    rows.offset = [2**32 - 5 + 3 * row for row in range(len(SIZES))]
    memories = []
    for special in 0, 0.0005:
        values = templatecases.start_values(compiled, rows, np.random.default_rng(21), special)
        memory = compare.Memory(compiled.signature, rows, [row % 7 for row in range(len(SIZES))]).fill(values)
        memories.append((memory, *phaserun.recorded(compiled, memory)))
    return compiled, memories


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("form", ["f32", "bf16", "f16", "ocp.e4m3fn"])
def test_sums_of_tensors_of_any_length(form, body, target):
    if not phaserun.can_run(target):
        pytest.skip(f"{target} does not run here")
    compiled, memories = case(form, body)
    for memory in memories:
        assert phaserun.sums_missing(compiled, target, *memory) is None
