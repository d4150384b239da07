"""Copies in blocks of 16 x 16 and 32 x 32, of which a tile has several: every byte on every path, and against NumPy."""

import numpy as np
import pytest

import compare
import mx
import program
import templatecases
from test_column_copies import ALL, rows_of

# Rows and columns: whole tiles, edges in both directions, fewer rows than a block, one row of an odd length, none.
SHAPES = [(33, 160), (1, 77), (70, 32), (17, 272), (129, 16), (0, 64), (31, 128), (5, 0)]
CASES = [("adamw", "grad=bf16 copy=nvfp4:16x16", ["--clip"]),
         ("adamw", "param=bf16,stochastic grad=bf16 master=f32 copy=nvfp4:16x16,current m=mxfp8", ["--unscale"]),
         ("lion", "copy=mxfp8:32x32,floor", ["--loss-scaler=torch"]),
         ("lion", "param=bf16,stochastic copy=mxfp4:32x32 m=bnb8:16", []),
         ("adamw", "param=bf16 grad=bf16 master=f32 copy=ocp.e5m2:16x16,pow2", ["--clip", "--statistics"]),
         # A sweep of its own for the copy.
         ("adamw", "states=torchao4:16 copy=nvfp4:16x16", []), ("lamb", "copy=mxfp8:32x32", ["--norm=l1"]),
         ("adamw", "states=bnb8:16 copy=ocp.e2m1:128x128", ["--loss-scaler=torch"])]
LARGEST = [1.0, 2688.0, 3e-38, 1e-45, 3.4e38, 0.0, np.inf, np.nan, 1.9999999]


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    multiple = 32 if " m=mxfp8" in storage else 16
    shapes = [(a, -(-b // multiple) * multiple if a > 1 else b) for a, b in SHAPES]
    rng, rows = np.random.default_rng(12), rows_of(compiled, shapes)
    for shifts in ([0] * len(shapes), [1, 0, 3, 0, 15, 0, 2, 0]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


def matrices(count, shape):
    """Of magnitudes of all kinds, with zeros and what is not finite."""
    rng = np.random.default_rng(4)
    numbers = rng.standard_normal((count, *shape)) * np.exp2(rng.integers(-20, 9, (count, 1, 1)))
    numbers[:, 16:32, 32:48] = 0
    numbers[8, 1, 17], numbers[3, 40, 5] = np.nan, -np.inf
    numbers[0] = mx.numbers_of_all_kinds(shape[0] * shape[1] // 32, 3).reshape(shape)
    return numbers.astype(np.float32)


def held(compiled, numbers, **values):
    """What each path writes for parameters that do not move."""
    rows = rows_of(compiled, [one.shape for one in numbers])
    made = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    made.update(w=numbers.ravel().view(np.uint32), g=np.zeros(numbers.size, np.uint32), lr=np.zeros(1),
                decay=np.zeros(1), **values)
    memory = compare.Memory(compiled.signature, rows, [0] * len(numbers)).fill(made)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        yield name, got


@pytest.mark.parametrize("words", ["", ",current"])
def test_nvfp4_is_transformer_engines_of_weights(words):
    numbers = matrices(len(LARGEST), (49, 160))
    with np.errstate(all="ignore"):
        own = np.abs(numbers).max((1, 2))
        found = [mx.two_levels_by_squares(one, top) for one, top in zip(numbers, own if words else LARGEST)]
        amax = {} if words else {"copy_amax": np.array(LARGEST, np.float32)}
        for name, got in held(program.Program(program.generated("sgd", "copy=nvfp4:16x16" + words)), numbers, **amax):
            for row, (codes, levels, unit) in enumerate(found):
                np.testing.assert_array_equal(got.streams["copy_scale"].view(row), levels, err_msg=f"{name} {row}")
                np.testing.assert_array_equal(got.streams["copy"].view(row), codes, err_msg=f"{name} {row}")
                np.testing.assert_array_equal(got.scalars["copy_tensor_scale"][row], unit, err_msg=f"{name} {row}")
            if not words:
                np.testing.assert_array_equal(got.scalars["copy_amax"], own, err_msg=name)


@pytest.mark.parametrize("storage, form, rule", [
    ("mxfp8:32x32", "ocp.e4m3fn", "rceil"), ("mxfp8e5m2:32x32,even", "ocp.e5m2", "even"),
    ("mxfp4:32x32,floor", "ocp.e2m1", "floor"), ("ocp.e4m3fn:16x16", "ocp.e4m3fn", None)])
def test_codes_and_scales_against_numpy(storage, form, rule):
    numbers, side = matrices(9, (49, 160)), 16 if "16x16" in storage else 32
    with np.errstate(all="ignore"):
        codes, scales = map(np.concatenate, zip(*[mx.by_squares(one, form, rule, side=side) for one in numbers]))
        for name, got in held(program.Program(program.generated("sgd", "copy=" + storage)), numbers):
            np.testing.assert_array_equal(got.streams["copy_scale"].get(), scales, err_msg=name)
            np.testing.assert_array_equal(got.streams["copy"].get(), codes, err_msg=name)


def test_a_list_of_squares_is_read_again():
    """By elements, before it is overwritten by what their squares have."""
    compiled = program.Program("""
      altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %most: !altgrad.tensors<f32 per 16x16>) {
        %r = dequantize %w : !altgrad.tensors<f32>
        %x = element %r
        %l = dequantize %most : !altgrad.tensors<f32 per 16x16>
        %m = element %l
        %y = arith.mulf %x, %m : f32
        %top = reduce absmax %y over block<16x16> : f32
        %sum = arith.addf %top, %m : f32
        %z = arith.divf %y, %top : f32
        %v = collect %z : f32 to !altgrad.reals
        %k = collect %sum : f32 to !altgrad.reals
        commit always %v to %w : !altgrad.tensors<f32>, %k to %most : !altgrad.tensors<f32 per 16x16>
      }""")
    rng, rows = np.random.default_rng(1), rows_of(compiled, [(70, 130), (1, 77), (33, 5), (0, 64)])
    values = templatecases.start_values(compiled, rows, rng, 0.01)
    compare.run_steps(compiled, rows, [1, 0, 2, 0], values, [(0.01, {})], rng, ALL)
