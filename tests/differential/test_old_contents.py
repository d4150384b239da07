"""Rules that want old contents late: behind reductions over units and tiles, which take several passes over memory."""

import numpy as np
import pytest

import compare
import program
import templatecases
from buffers import Memory
from test_column_copies import ALL

# Of the unit, then of the tile, and the parameter is overwritten at once.
LATE = """
  %u = altgrad.reduce absmax %g over unit : f32
  %y = divf %g, %u : f32
  %x = mulf %w, %y : f32
  %s1 = altgrad.reduce absmax %x over block<BLOCK> : f32
  %w1 = subf %w, %g : f32
"""
# The other way round: what is of the tile meets the unit, and the unit's sum is wanted again.
AGAIN = """
  %t = altgrad.reduce sumsq %g over block<BLOCK> : f32
  %y = mulf %t, %w : f32
  %u = altgrad.reduce sumsq %y over unit : f32
  %x = divf %g, %u : f32
  %s1 = altgrad.reduce add %x over block<BLOCK> : f32
  %w1 = subf %w, %s : f32
"""


def agree(compiled, length=1):
    """Matrices whose rows are units, as any tensor of a set is where one is."""
    shapes = [(33, 5 * length), (1, 77), (130, 2 * length), (0, 128), (64, 132 // length * length), (2, 4096 + length)]
    rows, rng = compiled.rows([shapes], groups=2, apart=4096 * 16), np.random.default_rng(4)
    for special, odd in ((0.0, True), (0.001, False)):
        values = templatecases.start_values(compiled, rows, rng, special)
        values |= {"max_norm": np.array([0.3], np.float32)} if "max_norm" in compiled.text else {}
        shifts = [0, 1, 0, 3] * (len(rows.numel) // 4 + 1) if odd else [0] * len(rows.numel)
        compare.run_steps(compiled, rows, shifts[:len(rows.numel)], values, [(special, {})] * 2, rng, ALL)


def rule(folder, body, block):
    path = folder / "late.mlir"
    path.write_text(f"altgrad.rule @late(param %w: f32, grad %g: f32, state %s: f32) {{{body.replace('BLOCK', block)}"
                    "  altgrad.yield param(%w1) state(%s1)\n}\n")
    return path


@pytest.mark.parametrize("block", ["32x1", "128x128"])
@pytest.mark.parametrize("body", [LATE, AGAIN], ids=["late", "again"])
def test_the_old_parameter_is_what_a_tile_reduces(body, block, tmp_path):
    agree(program.Program(program.generated(rule(tmp_path, body, block), "states=f32")))


@pytest.mark.parametrize("storage, flags", [("param=bf16 master=f32 s=bf16", ["--clip=agc-unit"]),
                                            ("param=bf16,stochastic s=f16", ["--clip=agc", "--statistics"]),
                                            ("s=ocp.e4m3fn:128", ["--clip=agc-unit", "--unscale"])])
@pytest.mark.parametrize("body", [LATE, AGAIN], ids=["late", "again"])
def test_clips_and_narrow_states_in_front_of_tiles(body, storage, flags, tmp_path):
    text = program.generated(rule(tmp_path, body, "32x1"), storage, *flags)
    agree(program.Program(text), length=128 if ":128" in storage else 1)


def test_numpy_has_the_same_numbers(tmp_path):
    """In float64, of the formula as it stands: the state is of the parameter before the step."""
    compiled = program.Program(program.generated(rule(tmp_path, LATE, "32x1"), "states=f32"))
    rng = np.random.default_rng(5)
    w, g = (rng.standard_normal((64, 128)).astype(np.float32) for _ in range(2))
    x = np.abs(w.astype(float) * g / np.abs(g).max(1, keepdims=True)).reshape(2, 32, 128).max(1, keepdims=True)
    expected = np.broadcast_to(x, (2, 32, 128)).ravel()
    rows = compiled.rows([[(64, 128)]])
    values = {**templatecases.start_values(compiled, rows, rng, 0), "w": w.ravel().view(np.uint32), "g": g.ravel().view(np.uint32)}
    memory = Memory(compiled.signature, rows, [0] * len(rows.numel)).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        np.testing.assert_allclose(got.streams["s"].get().view(np.float32), expected, rtol=1e-6, err_msg=name)
        np.testing.assert_array_equal(got.streams["w"].get().view(np.float32), (w - g).ravel(), err_msg=name)


# Each was refused by words about sweeps, or ended the back end.
BEHIND = {"of what is of one": """
  %x = altgrad.reduce sumsq %w over block<BLOCK> : f32
  %y = maximumf %x, %g : f32
  %s1 = altgrad.reduce sumsq %y over block<BLOCK> : f32
  %w1 = addf %s, %y : f32
""", "beside the tensor's": """
  %a = altgrad.reduce absmax %s over block<BLOCK> : f32
  %b = altgrad.reduce add %w over block<BLOCK> : f32
  %t = altgrad.reduce absmax %g over tensor : f32
  %p = cmpf ole, %a, %t : f32
  %c = select %p, %b, %t : f32
  %s1 = altgrad.lerp %s to %c by %t : f32
  %w1 = subf %w, %c : f32
""", "of a run, of the unit": """
  %u = altgrad.reduce sumsq %g over unit : f32
  %r = altgrad.reduce sumsq %w over block<1x32> : f32
  %x = divf %r, %u : f32
  %m = altgrad.reduce max %x over block<BLOCK> : f32
  %y = mulf %m, %u : f32
  %s1 = altgrad.reduce add %y over block<1x32> : f32
  %w1 = subf %w, %m : f32
"""}


@pytest.mark.parametrize("block", ["32x1", "128x128"])
@pytest.mark.parametrize("body", BEHIND.values(), ids=BEHIND)
def test_a_tile_behind_another_one_and_behind_units(body, block, tmp_path):
    agree(program.Program(program.generated(rule(tmp_path, body, block), "param=bf16 s=f32")), length=32)
