"""Sums over blocks, in their one order: host code and interpreted PTX against the evaluator's, and against exact sums."""

import numpy as np
import pytest

import compare
import program
import templatecases
from test_blocks import agree
from test_column_copies import ALL, rows_of

LISTS = "!altgrad.tensors<f32>"
# Whole columns and parts of tiles in both directions, with more rows than half of one has and with fewer; none.
SHAPES = [(70, 130), (1, 77), (33, 5), (0, 64), (5, 0), (34, 32)]
SIZES = [530, 1, 31, 0, 300, 64]


def normalized(how, block, form="f32", name="g"):
    """Numbers over the root of their block's sum, in place, and the sum of each block beside them."""
    numbers, sums = f"!altgrad.tensors<{form}>", f"!altgrad.tensors<f32 per {block}>"
    rounded = "" if form == "f32" else f"%h = quantize %l round<nearest_even> overflow<nonfinite> : {numbers}"
    return f"""
      altgrad.step @s(inout %{name}: {numbers}, out %sum: {sums}) {{
        %r = dequantize %{name} : {numbers}
        %x = element %r
        %s = reduce {how} %x over block<{block}> : f32
        %root = math.sqrt %s : f32
        %y = arith.divf %x, %root : f32
        %l = collect %y : f32 to !altgrad.reals
        {rounded}
        %k = collect %s : f32 to !altgrad.reals
        commit always {"%l" if form == "f32" else "%h"} to %{name} : {numbers}, %k to %sum : {sums}
      }}"""


def agree_on_matrices(compiled, seed=12, multiple=0):
    """`multiple`: of the columns, where blocks of rows may not be cut."""
    shapes = [(a, -(-b // multiple) * multiple) for a, b in SHAPES] if multiple else SHAPES
    rng, rows = np.random.default_rng(seed), rows_of(compiled, shapes)
    for shifts in ([0] * len(SHAPES), [1, 0, 3, 0, 0, 2]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {})], rng, ALL)


@pytest.mark.parametrize("how, block", [("add", 16), ("sumsq", 32), ("sumsq", 128), ("add", 256), ("add", 512), ("sumsq", 2048)])
@pytest.mark.parametrize("form", ["f32", "bf16", "ocp.e4m3fn"])  # 4, 8 and 16 elements of a thread
def test_sums_of_neighbours(form, how, block):
    agree(program.Program(normalized(how, f"1x{block}", form)), SIZES)


@pytest.mark.parametrize("block", ["32x1", "16x16", "32x32", "128x128"])
@pytest.mark.parametrize("how, form", [("add", "bf16"), ("sumsq", "f32"), ("max", "f32")])
def test_sums_of_tiles(how, form, block):
    agree_on_matrices(program.Program(normalized(how, block, form)))


@pytest.mark.parametrize("block", ["1x16", "1x256", "1x2048", "32x1", "16x16", "32x32", "128x128"])
def test_each_element_counts_once(block):
    """Sums of small whole numbers are exact in every order."""
    compiled = program.Program(normalized("sumsq", block))
    down, across = map(int, block.split("x"))
    columns = max(256, across)
    numbers = np.random.default_rng(4).integers(-9, 9, (66, columns)).astype(np.float32)
    whole = np.pad(numbers.astype(int)**2, ((0, -66 % down), (0, 0)))
    expected = whole.reshape(-1, down, columns // across, across).sum((1, 3)).ravel()
    rows = rows_of(compiled, [numbers.shape])
    values = {"g": numbers.ravel().view(np.uint32), "sum": np.zeros(len(expected), np.uint32)}
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        np.testing.assert_array_equal(got.streams["sum"].get().view(np.float32), expected, err_msg=name)


@pytest.mark.parametrize("storage", ["states=f32", "param=bf16 grad=bf16 master=f32 m=bf16 v=f16", "m=ocp.e4m3fn:128 v=bf16"])
def test_a_rule_whose_neighbours_share_a_second_moment(storage, tmp_path):
    """The page's, whose rule the evaluator reads."""
    page = (program.ROOT / "templates/Language.md").read_text()
    rule = page[page.index("rule blocks("):]
    path = tmp_path / "blocks.mlir"
    path.write_text(rule[:rule.index("```")])
    agree(program.Program(program.generated(path, storage, "--clip")), SIZES)


def moments(block, top):
    """Adam with one v for each block, of the sum of its squares, beside the largest of other blocks and a norm."""
    over, second, top = f"block<{top}>", f"!altgrad.tensors<f32 per {block}>", f"!altgrad.tensors<f32 per {top}>"
    return f"""
      altgrad.step @mini(inout %w: !altgrad.tensors<bf16>, in %g: !altgrad.tensors<bf16>, inout %m: {LISTS},
                         inout %v: {second}, out %top: {top}, out %norm: f32) {{
        %wr = dequantize %w : !altgrad.tensors<bf16>
        %gr = dequantize %g : !altgrad.tensors<bf16>
        %mr = dequantize %m : {LISTS}
        %vr = dequantize %v : {second}
        %we = element %wr
        %ge = element %gr
        %me = element %mr
        %ve = element %vr
        %squares = reduce sumsq %ge over block<{block}> : f32
        %b = arith.constant 0.9 : f32
        %eps = arith.constant 1.0e-8 : f32
        %rate = arith.constant 1.0e-2 : f32
        %count = arith.constant 64.0 : f32
        %mean = arith.divf %squares, %count : f32
        %v1 = lerp %mean to %ve by %b : f32
        %m1 = lerp %ge to %me by %b : f32
        %root = math.sqrt %v1 : f32
        %divisor = arith.addf %root, %eps : f32
        %u = arith.divf %m1, %divisor : f32
        %change = arith.mulf %u, %rate : f32
        %w1 = arith.subf %we, %change : f32
        %most = reduce absmax %u over {over} : f32
        %all = reduce sumsq %ge over step : f32
        %wl = collect %w1 : f32 to !altgrad.reals
        %wq = quantize %wl round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
        %ml = collect %m1 : f32 to !altgrad.reals
        %vl = collect %v1 : f32 to !altgrad.reals
        %tl = collect %most : f32 to !altgrad.reals
        commit always %all to %norm : f32, %wq to %w : !altgrad.tensors<bf16>, %ml to %m : {LISTS}, %vl to %v : {second},
            %tl to %top : {top}
      }}"""


def test_a_second_moment_for_each_block():
    agree(program.Program(moments("1x64", "1x256")), SIZES)
