"""Blocks of elements: what they reduce, and one stored value for each, beside the elements."""

import numpy as np
import pytest

import compare
import hostrun
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [8193, 1, 31, 32, 33, 0, 4096, 255, 300]


def agree(compiled, sizes=SIZES, seed=9, special=0.03, shifts=None):
    rows = compiled.rows([sizes])
    rows.offset = [256 * i * 2**26 for i in range(len(sizes))]
    for moved in ([0] * len(sizes), [0, 1, 3, 0, 15, 0, 2, 0, 1][:len(sizes)]):
        rng = np.random.default_rng(seed)
        values = templatecases.start_values(compiled, rows, rng, special)
        values = compare.run_steps(compiled, rows, moved, values, [(special, {}), (0.0, {})], rng, ALL)
    return rows, values


def step(form, block, stored="f32"):
    """The largest size of each block beside the elements, which are scaled by it, in place."""
    tensors, tops = f"!altgrad.tensors<{form}>", f"!altgrad.tensors<{stored} per 1x{block}>"

    def quantized(name, value, kind):
        if kind.startswith("!altgrad.tensors<f32"):
            return f"%{name} = collect {value} : f32 to !altgrad.reals"
        return (f"%{name}r = collect {value} : f32 to !altgrad.reals\n"
                f"%{name} = quantize %{name}r round<nearest_even> overflow<nonfinite> : {kind}")
    return f"""
      altgrad.step @s(inout %w: {tensors}, out %top: {tops}) {{
        %wr = dequantize %w : {tensors}
        %we = element %wr
        %size = math.absf %we : f32
        %most = reduce max %size over block<1x{block}> : f32
        %ratio = arith.divf %we, %most : f32
        {quantized("w1", "%ratio", tensors)}
        {quantized("t1", "%most", tops)}
        commit always %w1 to %w : {tensors}, %t1 to %top : {tops}
      }}"""


@pytest.mark.parametrize("block", [32, 64, 128, 256])
@pytest.mark.parametrize("form", ["f32", "bf16", "ocp.e4m3fn"])
def test_the_largest_of_each_block_is_stored(form, block):
    compiled = program.Program(step(form, block))
    agree(compiled)
    written = compiled.manifest["phases"][0]["written"]
    width = {"f32": 4, "bf16": 2, "ocp.e4m3fn": 1}[form]
    assert written == width + 4 / block
    assert [(s["bits"], s["block"]) for s in compiled.manifest["streams"]] == [(8 * width, 1), (32, block)]


def test_blocks_of_codes():
    agree(program.Program(step("bf16", 32, "ocp.e5m2")))


def test_roots_are_divided_by_whatever_the_scalar_is():
    """GPUs do it by products where the scalar is a usual one; roots may be 0, infinite or NaN."""
    compiled = program.Program("""
      altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %s: f32, out %top: !altgrad.tensors<f32 per 1x32>) {
        %wr = dequantize %w : !altgrad.tensors<f32>
        %we = element %wr
        %root = math.sqrt %we : f32
        %part = arith.divf %root, %s : f32
        %most = reduce max %part over block<1x32> : f32
        %w1 = collect %part : f32 to !altgrad.reals
        %t1 = collect %most : f32 to !altgrad.reals
        commit always %w1 to %w : !altgrad.tensors<f32>, %t1 to %top : !altgrad.tensors<f32 per 1x32>
      }""")
    rows, rng = compiled.rows([[4096 + 17]]), np.random.default_rng(12)
    powers = [np.float32(1.7) * np.float32(2.0)**k for k in (-149, -127, -25, -24, 0, 24, 25, 100, 127)]
    for scalar in [0.0, -0.0, 0.3, 7.7e-3, -1.0, np.inf, -np.inf, np.nan, np.nextafter(1, 0, dtype=np.float32), *powers]:
        bits = rng.integers(0, 0x7F800000, 4096 + 17, dtype=np.uint32)
        bits[::7] = rng.choice([0, 0x80000000, 0x7F800000, 0x7FC00000, 0xBF800000, 1, 0x7F7FFFFF], len(bits[::7]))
        values = {"w": bits, "s": np.array([scalar], np.float32), "top": np.zeros(129, np.uint32)}
        memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
        compare.agree(compiled, compare.executors(compiled, ALL), memory, values, f"root / {scalar}")


def test_the_largest_of_a_block_against_numpy():
    compiled = program.Program(step("f32", 32))
    rng = np.random.default_rng(1)
    rows = compiled.rows([[100]])
    numbers = rng.standard_normal(100).astype(np.float32)
    numbers[40] = np.nan
    values = {"w": numbers.view(np.uint32), "top": np.zeros(4, np.uint32)}
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    wanted = [np.abs(numbers[i:i + 32]).max() for i in range(0, 100, 32)]
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        np.testing.assert_array_equal(got.streams["top"].get().view(np.float32), wanted, err_msg=name)


def test_a_block_reduction_of_another_beside_sums_and_reading():
    """Old tops are read, two reductions in a row, sums over tensor and step, the index, a condition."""
    compiled = program.Program("""
      altgrad.step @s(inout %w: !altgrad.tensors<bf16>, in %g: !altgrad.tensors<f32>,
                      inout %top: !altgrad.tensors<f32 per 1x64>, out %n: f32, out %ok: f32) {
        %gr, %finite = unscale %g by %one : !altgrad.tensors<f32>
        %wr = dequantize %w : !altgrad.tensors<bf16>
        %tr = dequantize %top : !altgrad.tensors<f32 per 1x64>
        %we = element %wr
        %ge = element %gr
        %te = element %tr
        %size = math.absf %ge : f32
        %most = reduce max %size over block<1x64> : f32
        %i = index : i64
        %c15 = arith.constant 15 : i64
        %low = arith.andi %i, %c15 : i64
        %place = arith.sitofp %low : i64 to f32
        %ratio = arith.divf %place, %most : f32
        %next = reduce max %ratio over block<1x64> : f32
        %kept = arith.addf %te, %next : f32
        %sum = reduce sumsq %ge over tensor : f32
        %total = reduce add %we over step : f32
        %scaled = arith.mulf %ge, %next : f32
        %w1 = arith.divf %scaled, %sum : f32
        %w2 = arith.addf %w1, %total : f32
        %wl = collect %w2 : f32 to !altgrad.reals
        %wq = quantize %wl round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
        %tl = collect %kept : f32 to !altgrad.reals
        %flag = arith.select %finite, %one, %zero : f32
        commit always %total to %n : f32, %flag to %ok : f32
            if %finite %wq to %w : !altgrad.tensors<bf16>, %tl to %top : !altgrad.tensors<f32 per 1x64>
      }""".replace("%gr, %finite", "%one = arith.constant 1.0 : f32\n%zero = arith.constant 0.0 : f32\n%gr, %finite"))
    agree(compiled)
    agree(compiled, special=0.0)


def test_an_offset_is_at_a_whole_block_though_none_is_stored_per_block():
    tensors = "!altgrad.tensors<f32>"
    compiled = program.Program(f"""
      altgrad.step @s(inout %w: {tensors}, inout %v: {tensors} set 1) {{
        %wr = dequantize %w : {tensors}
        %we = element %wr
        %most = reduce max %we over block<1x64> : f32
        %ratio = arith.divf %we, %most : f32
        %w1 = collect %ratio : f32 to !altgrad.reals
        %vr = dequantize %v : {tensors}
        %ve = element %vr
        %twice = arith.addf %ve, %ve : f32
        %v1 = collect %twice : f32 to !altgrad.reals
        commit always %w1 to %w : {tensors}, %v1 to %v : {tensors}
      }}""")
    assert [(p["set"], p["block"]) for p in compiled.manifest["phases"]] == [(0, 64), (1, 1)]
    plan = hostrun.HostPlan(compiled, "v3")

    def bind(offset):
        rows = compiled.rows([[100], [100]])
        rows.offset = [offset, 5]
        plan.bind(compare.Memory(compiled.signature, rows, [0, 0]))
    bind(128)
    words = r"tensors\[0\].offset is 32, not a multiple of 64, the elements of a block in set 0"
    with pytest.raises(hostrun.Failed, match=words):
        bind(32)


def test_tops_of_a_sweep_with_a_sum():
    """Partial sums and blocks in one sweep."""
    compiled = program.Program(step("f32", 256).replace("out %top", "out %n: f32, out %top").replace(
        "commit always", "%sum = reduce sumsq %ratio over step : f32\n commit always %sum to %n : f32,"))
    assert len([p for p in compiled.manifest["phases"] if p["kind"] == "sweep"]) == 1
    agree(compiled)


def test_blocks_of_three_sizes_that_depend_on_each_other():
    """The largest of 32 over that of 128, whose blocks are divided by the least of 256; old values of each are read."""
    lists = [f"!altgrad.tensors<f32 per 1x{size}>" for size in (32, 128, 256)]
    compiled = program.Program(f"""
      altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %a: {lists[0]}, inout %b: {lists[1]}, inout %c: {lists[2]}) {{
        %wr = dequantize %w : !altgrad.tensors<f32>
        %x = element %wr
        %ar = dequantize %a : {lists[0]}
        %ae = element %ar
        %br = dequantize %b : {lists[1]}
        %be = element %br
        %cr = dequantize %c : {lists[2]}
        %ce = element %cr
        %x0 = arith.addf %x, %ae : f32
        %size = math.absf %x0 : f32
        %big = reduce max %size over block<1x128> : f32
        %share = arith.divf %x0, %big : f32
        %x1 = arith.addf %share, %be : f32
        %small = reduce max %x1 over block<1x32> : f32
        %ratio = arith.divf %small, %big : f32
        %all = reduce max %ratio over block<1x256> : f32
        %x2 = arith.mulf %x1, %all : f32
        %x3 = arith.subf %x2, %ce : f32
        %w1 = collect %x3 : f32 to !altgrad.reals
        %a1 = collect %small : f32 to !altgrad.reals
        %b1 = collect %big : f32 to !altgrad.reals
        %c1 = collect %all : f32 to !altgrad.reals
        commit always %w1 to %w : !altgrad.tensors<f32>, %a1 to %a : {lists[0]}, %b1 to %b : {lists[1]}, %c1 to %c : {lists[2]}
      }}""")
    agree(compiled)
