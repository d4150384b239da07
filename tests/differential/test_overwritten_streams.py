"""Lengths around vectors, and streams that a body overwrites early and reads late."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases
from buffers import Memory

ALL = {"races": True} if ptxrun.available() else None


@pytest.mark.parametrize("storage", ["param=ocp.e4m3fn rungs=ocp.e4m3fn grad=bf16", "rungs=ocp.e5m2"])
def test_lengths_around_vectors(storage):
    rng = np.random.default_rng(7)
    compiled = program.Program(program.generated("gridoptim", storage))
    templatecases.use_rule("gridoptim")
    rows = compiled.rows([[1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 4095, 4096 + 16, 8192]], groups=1)
    values = templatecases.start_values(compiled, rows, rng, 0.02)
    values["seed"] = np.array([3])
    compare.run_steps(compiled, rows, [0] * 13, values, [(0.02, {}), (0.01, {})], rng, ALL)


def test_old_content_is_read_before_it_is_overwritten():
    """`m` is stored early and read late, `w` the other way round, and `k` goes from memory to memory."""
    compiled = program.Program("""altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %m: !altgrad.tensors<f32>,
    inout %k: !altgrad.tensors<bf16>, out %c: !altgrad.tensors<bf16>) {
  %ws = dequantize %w : !altgrad.tensors<f32>
  %ms = dequantize %m : !altgrad.tensors<f32>
  %x = element %ws
  %y = element %ms
  %a = math.sqrt %x : f32
  %b = arith.divf %x, %a : f32
  %d = math.sqrt %b : f32
  %e = arith.divf %b, %d : f32
  %f = math.sqrt %e : f32
  %g = arith.addf %f, %y : f32
  %w1 = collect %g : f32 to !altgrad.reals
  %m1 = collect %a : f32 to !altgrad.reals
  %n = collect %b : f32 to !altgrad.reals
  %k1 = quantize %n round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  %ks = dequantize %k : !altgrad.tensors<bf16>
  %old = quantize %ks round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always %w1 to %w : !altgrad.tensors<f32>, %m1 to %m : !altgrad.tensors<f32>, %k1 to %k : !altgrad.tensors<bf16>,
      %old to %c : !altgrad.tensors<bf16>
}
""")
    n, rng = 1000, np.random.default_rng(1)
    values = {"w": rng.random(n, np.float32).view(np.uint32), "m": rng.random(n, np.float32).view(np.uint32),
              "k": rng.integers(0, 1 << 15, n).astype(np.uint16), "c": np.zeros(n, np.uint16)}
    memory = Memory(compiled.signature, compiled.rows([[n]]), [0]).fill(values)
    compare.agree(compiled, compare.executors(compiled, None), memory, values, "old content")
