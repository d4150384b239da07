"""NVFP4 copies: scales of blocks below one of the tensor, every byte on every path, and TransformerEngine's formula in NumPy."""

import numpy as np
import pytest

import compare
import mx
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [8193, 1, 17, 0, 4096, 319]
LARGEST = [1.0, 2688.0, 3e-38, 1e-45, 3.4e38, 0.0, np.inf, np.nan, 1.9999999]


@pytest.mark.parametrize("rule, storage, flags", [
    ("adamw", "copy=nvfp4", ["--clip"]),
    ("lion", "param=bf16 grad=bf16 master=f32 copy=nvfp4,stochastic m=bnb8:16", ["--loss-scaler=torch"])],
    ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(12)
    rows = compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    for shifts in ([0] * len(SIZES), [1, 0, 3, 0, 15, 2]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


def test_codes_and_both_scales_against_numpy():
    compiled = program.Program(program.generated("sgd", "copy=nvfp4"))
    size, rng = 5024, np.random.default_rng(4)
    rows = compiled.rows([[size] * len(LARGEST)])
    numbers = (rng.standard_normal((len(LARGEST), size)) * np.exp2(rng.integers(-20, 9, (len(LARGEST), 1)))).astype(np.float32)
    numbers[:, 160:176], numbers[8, 17], numbers[3, 4097] = 0, np.nan, -np.inf
    numbers[0] = mx.numbers_of_all_kinds(157, 3)
    values = templatecases.start_values(compiled, rows, rng, 0)
    values.update(w=numbers.ravel().view(np.uint32), g=np.zeros(numbers.size, np.uint32), lr=np.zeros(1),
                  decay=np.zeros(1), copy_amax=np.array(LARGEST, np.float32))
    with np.errstate(all="ignore"):
        codes, levels, units = zip(*[mx.two_levels(row, top) for row, top in zip(numbers, LARGEST)])
        memory = compare.Memory(compiled.signature, rows, [0] * len(LARGEST)).fill(values)
        for name, run in compare.executors(compiled, ALL):
            got = memory.twin()
            run(got)
            for row in range(len(LARGEST)):
                np.testing.assert_array_equal(got.streams["copy_scale"].view(row), levels[row], err_msg=f"{name} {row}")
                np.testing.assert_array_equal(got.streams["copy"].view(row), codes[row], err_msg=f"{name} {row}")
            np.testing.assert_array_equal(got.scalars["copy_tensor_scale"], np.array(units), err_msg=name)
            np.testing.assert_array_equal(got.scalars["copy_amax"], np.abs(numbers).max(1), err_msg=name)
