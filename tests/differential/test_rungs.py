"""Rules in rung space: host = PTX = evaluator, and against definitions 7.1 and 7.2 in NumPy and fractions."""

import numpy as np
import pytest

import compare
import formats
import program
import ptxrun
import rounding
import templatecases
from buffers import Memory

ALL = {"races": True} if ptxrun.available() else None
# Formats with a sign and at most 8 bits: NaN, infinity, neither, no mantissa, no exponent, 4 bits.
GRIDS = ["ocp.e4m3fn", "ocp.e5m2", "altgrad.e3m4", "altgrad.e0m7", "altgrad.e7m0", "altgrad.e6m1", "ocp.e2m1"]
SEED = 0x0123456789ABCDEF


def generated(rule, storage, *flags):
    return program.Program(program.generated(rule, storage, *flags))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("rule", ["gridoptim", "adamw", "lion", "signsgd", "sgd{momentum_on}"])
def test_hosts_and_gpus_agree(rule, grid):
    """Codes and values, in a second step too; special codes and gradients among them."""
    rng = np.random.default_rng(5)
    turn = (GRIDS.index(grid) + len(rule)) % 3
    storage = f"rungs={grid} " + ["param={0} states=bf16 grad=bf16", "", "param={0}"][turn].format(grid)
    compiled = generated(rule, storage, *[["--clip", "--scaler"], ["--statistics"], []][turn])
    templatecases.use_rule(rule.split("{")[0])
    rows = compiled.rows([[5000, 1, 0, 263, 4096]], groups=2)
    values = templatecases.start_values(compiled, rows, rng, 0.02)
    values["seed"] = np.array([SEED])
    for name in ("lr", "scale"):
        if name in values:
            values[name] = np.array([0.7, 30.0])
    compare.run_steps(compiled, rows, [0, 0, 0, 1, 3], values, [(0.02, {}), (0.0, {})], rng, ALL)


@pytest.mark.parametrize("storage", ["rungs=ocp.e4m3fn,reference", "rungs=ocp.e5m2,toward_zero param=bf16",
                                     "param=ocp.e5m2 rungs=altgrad.e5m2,nearest_even", "rungs=ocp.e4m3fn copy=ocp.e4m3fn",
                                     "param=ocp.e4m3fn rungs=ocp.e4m3fn,reference"])
def test_other_roundings(storage):
    rng = np.random.default_rng(6)
    compiled = generated("gridoptim", storage, "--statistics")
    templatecases.use_rule("gridoptim")
    rows = compiled.rows([[5000, 263]], groups=2)
    values = templatecases.start_values(compiled, rows, rng, 0.02)
    if "seed" in values:
        values["seed"] = np.array([SEED])
    compare.run_steps(compiled, rows, [1, 0], values, [(0.02, {}), (0.0, {})], rng, ALL)
