"""What reads more of its element than a reduction over columns or squares does, and lists that tiles share and read."""

import re

import pytest

import program
from test_block_sums import agree_on_matrices, moments

RULE = """
altgrad.rule @columns(param %w: f32, grad %g: f32, state %v: f32, hyper %lr: f64 = 1.0e-3, hyper %beta: f64 = 0.9) {
  %squares = altgrad.reduce sumsq %g over block<BLOCK> : f32
  %share = constant 0.03125 : f32
  %mean = mulf %squares, %share : f32
  %b = truncf %beta : f64 to f32
  %v1 = altgrad.lerp %mean to %v by %b : f32
  %least = constant 1.0e-16 : f32
  %some = maximumf %v1, %least : f32
  %root = math.sqrt %some : f32
  %even = divf %g, %root : f32
  %rate = truncf %lr : f64 to f32
  %change = mulf %rate, %even : f32
  %w1 = subf %w, %change : f32
  altgrad.yield param(%w1) state(%v1)
}
"""


def step(body, *arguments):
    """A step whose lists are named before: `in %w f32 per 32x1` is an argument, %we its element, `%x -> %w` a write."""
    names = {a.split()[1]: f"!altgrad.tensors<{a.split(maxsplit=2)[2]}>" for a in arguments}
    lines = [f"{n}r = dequantize {n} : {t}\n {n}e = element {n}r" for n, t in names.items() if f"{n}e" in body]
    writes = re.findall(r"(%\w+) -> (%\w+)", body)
    lines.append(re.sub(r" *%\w+ -> %\w+\n", "", body))
    lines += [f"{x}l = collect {x} : f32 to !altgrad.reals" for x, _ in writes]
    commit = ", ".join(f"{x}l to {n} : {names[n]}" for x, n in writes)
    signature = ", ".join(f"{a.split()[0]} {a.split()[1]}: {names[a.split()[1]]}" for a in arguments)
    return f"altgrad.step @s({signature}) {{\n" + "\n".join(lines) + f"\ncommit always {commit}\n}}"


@pytest.mark.parametrize("block", ["32x1", "128x128"])
@pytest.mark.parametrize("how", ["sumsq", "absmax"])
def test_the_element_is_read_again(how, block):
    agree_on_matrices(program.Program(step(f"""
        %s = reduce {how} %ge over block<{block}> : f32
        %u = arith.divf %ge, %s : f32
        %w1 = arith.subf %we, %u : f32
        %w1 -> %w
        """, "inout %w f32", "in %g f32")))


@pytest.mark.parametrize("storage, flags", [("param=bf16 grad=bf16 master=f32 v=bf16", ["--clip"]),
                                            ("v=ocp.e4m3fn:128", ["--loss-scaler=torch", "--statistics"])])
@pytest.mark.parametrize("block", ["32x1", "128x128"])
def test_a_rule_may_reduce_over_columns_and_squares(block, storage, flags, tmp_path):
    path = tmp_path / "columns.mlir"
    path.write_text(RULE.replace("BLOCK", block))
    agree_on_matrices(program.Program(program.generated(path, storage, *flags)), multiple=128 * (":128" in storage))


@pytest.mark.parametrize("block", ["32x1", "128x128"])
@pytest.mark.parametrize("top", ["1x128", "1x256"])
def test_a_second_moment_for_each_tile(block, top):
    """A state of a list per tile, beside blocks that tiles hold, and that they would cut."""
    agree_on_matrices(program.Program(moments(block, top)), multiple=256)


@pytest.mark.parametrize("form", ["f32", "ocp.e8m0"])
@pytest.mark.parametrize("block", ["32x1", "128x128"])
def test_scales_of_tiles_are_read(block, form):
    agree_on_matrices(program.Program(step("""
        %w1 = arith.mulf %ce, %se : f32
        %w1 -> %w
        """, "in %c ocp.e4m3fn", f"in %s {form} per {block}", "out %w f32")))


def test_a_second_moment_of_rows_times_columns():
    """Adafactor's (Shazeer and Stern 2018), in tiles of 32 rows and 128 columns: r c / sum(c)."""
    agree_on_matrices(program.Program(step("""
        %r0 = reduce sumsq %ge over block<1x128> : f32
        %c0 = reduce sumsq %ge over block<32x1> : f32
        %b = arith.constant 0.9 : f32
        %r1 = lerp %r0 to %re by %b : f32
        %c1 = lerp %c0 to %ce by %b : f32
        %all = reduce add %c1 over block<1x128> : f32
        %both = arith.mulf %r1, %c1 : f32
        %v = arith.divf %both, %all : f32
        %root = math.sqrt %v : f32
        %u = arith.divf %ge, %root : f32
        %w1 = arith.subf %we, %u : f32
        %w1 -> %w
        %r1 -> %r
        %c1 -> %c
        """, "inout %w bf16", "in %g f32", "inout %r f32 per 1x128", "inout %c f32 per 32x1").replace(
            "commit", "%q = quantize %w1l round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>\ncommit").replace(
            "%w1l to %w", "%q to %w")), multiple=128)


def test_sums_of_what_columns_share_and_two_reductions():
    text = step("""
        %a = reduce absmax %ge over block<32x1> : f32
        %b = reduce add %we over block<32x1> : f32
        %c = arith.mulf %a, %b : f32
        %w1 = arith.addf %we, %c : f32
        %w1 -> %w
        %a -> %top
        """, "inout %w f32", "in %g f32", "out %top f32 per 32x1")
    text = text.replace("%w1l =", "%n = reduce sumsq %c over step : f32\n%w1l =").replace("out %top:", "out %norm: f32, out %top:")
    agree_on_matrices(program.Program(text.replace("commit always", "commit always %n to %norm : f32,")))


def test_columns_and_squares_of_one_set_are_refused():
    with pytest.raises(Exception, match=r"tiles of 32 rows, and another .* over tiles of 128; write block<128x128> for all"):
        program.Program(step("%a = reduce add %we over block<32x1> : f32\n%b = reduce add %we over block<128x128> : f32\n"
                             "%c = arith.addf %a, %b : f32\n%c -> %w\n", "inout %w f32"))
