"""What a body knows of its element and tensor: global index, tag, extents; integers made of them."""

import numpy as np
import pytest

import compare
import evaluator
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [9000, 1, 4096, 31, 0, 257]
OFFSETS = [0, 2**31 - 3, 2**32 - 5, 2**33 + 4096, 7, 2**44 - 257]
TAGS = [0, 1, 2**63 - 1, 0x9E3779B97F4A7C15 >> 1, 5, 2**32 + 1]
WHOLES = [(90, 100, 1), (1, 2**31, 1), (2**13, 2**10, 2**10), (31, 1, 2**30), (3, 3, 1), (2**20, 4, 2**22)]
HASH = """
  %i = altgrad.index : i64
  %key = altgrad.tag : i64
  %rows = altgrad.dim rows : i64
  %columns = altgrad.dim columns : i64
  %batch = altgrad.dim batch : i64
  %area = arith.muli %rows, %columns : i64
  %place = arith.addi %area, %batch : i64
  %mixed = arith.muli %key, %place : i64
  %x = arith.xori %i, %mixed : i64
  %c29 = arith.constant 29 : i64
  %h = arith.shrui %x, %c29 : i64
  %l = arith.shli %x, %c29 : i64
  %z = arith.ori %h, %l : i64
  %m = arith.muli %z, %x : i64
  %mask = arith.constant 16777215 : i64
  %low = arith.andi %m, %mask : i64
  %bits = arith.sitofp %low : i64 to f32
  %zero = arith.constant 0 : i64
  %negative = arith.cmpi slt, %m, %zero : i64
  %all = arith.sitofp %m : i64 to f32"""


def rows_of(compiled):
    """Rows of one set with unpleasant offsets, tags and shapes."""
    rows = compiled.rows([SIZES])
    rows.offset, rows.tag, rows.whole = OFFSETS, TAGS, WHOLES
    return rows


def agree(compiled, rows, shifts, seed=3, special=0.02):
    rng = np.random.default_rng(seed)
    values = templatecases.start_values(compiled, rows, rng, special)
    return compare.run_steps(compiled, rows, shifts, values, [(special, {})] * 2, rng, ALL)


def step(form, total):
    """Stores numbers made of the index beside the stream; `total`: with sums over the step."""
    tensors = f"!altgrad.tensors<{form}>"
    sums = ("%sum = reduce add %bits over step : f32\n%most = reduce max %mix over step : f32" if total else
            "%sum = arith.constant 1.0 : f32\n%most = arith.constant 2.0 : f32")
    return f"""
      altgrad.step @s(inout %w: {tensors}, out %a: !altgrad.tensors<f32>, out %t: i64 per_tensor,
                      out %n: f32) {{
        %wr = dequantize %w : {tensors}
        %we = element %wr{HASH}
        %mix = arith.select %negative, %we, %bits : f32
        {sums}
        %both = arith.addf %mix, %most : f32
        %w1 = collect %both : f32 to !altgrad.reals
        %q = quantize %w1 round<nearest_even> overflow<saturate> : {tensors}
        %scaled = arith.divf %all, %sum : f32
        %a1 = collect %scaled : f32 to !altgrad.reals
        commit always {"%w1" if form == "f32" else "%q"} to %w : {tensors}, %a1 to %a : !altgrad.tensors<f32>,
            %mixed to %t : i64, %sum to %n : f32
      }}"""


@pytest.mark.parametrize("total", [False, True], ids=["plain", "sums"])
@pytest.mark.parametrize("form", ["f32", "bf16", "ocp.e4m3fn"])
def test_index_tag_and_extents(form, total):
    compiled = program.Program(step(form, total))
    for shifts in [0] * 6, [0, 1, 3, 0, 0, 15]:
        agree(compiled, rows_of(compiled), shifts)


def test_an_index_alone_fills_a_stream():
    """Only bf16 streams, and no load: the index of every element, beyond 2^32 too."""
    compiled = program.Program("""
      altgrad.step @s(out %a: !altgrad.tensors<bf16>) {
        %i = index : i64
        %mask = arith.constant 255 : i64
        %low = arith.andi %i, %mask : i64
        %x = arith.sitofp %low : i64 to f32
        %list = collect %x : f32 to !altgrad.reals
        %q = quantize %list round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
        commit always %q to %a : !altgrad.tensors<bf16>
      }""")
    rows = rows_of(compiled)
    after = agree(compiled, rows, [0, 1, 0, 3, 0, 0])
    numbers = (after["a"].astype(np.uint32) << 16).view(np.float32)
    assert list(numbers[9001:9006]) == [251, 252, 253, 254, 255]  # 2^32 - 5 and on
    assert numbers[9006] == 0


def test_rules_know_their_element_and_tensor():
    """Two sets share a rule: each list has its own indices."""
    rule = f"""
      altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64) {{{HASH}
        %rate = truncf %lr : f64 to f32
        %d = mulf %rate, %g : f32
        %s = select %negative, %d, %bits : f32
        %w1 = subf %w, %s : f32
        altgrad.yield param(%w1) state()
      }}
      altgrad.step @s(inout %a: !altgrad.tensors<f32>, in %p: !altgrad.tensors<f32>,
                      inout %b: !altgrad.tensors<bf16> set 1, in %q: !altgrad.tensors<f32> set 1,
                      in %lr: f64 per_group) {{
        %ar = dequantize %a : !altgrad.tensors<f32>
        %pr = dequantize %p : !altgrad.tensors<f32>
        %a1 = update @r param(%ar) grad(%pr) state() hyper(%lr)
        %br = dequantize %b : !altgrad.tensors<bf16>
        %qr = dequantize %q : !altgrad.tensors<f32>
        %b1 = update @r param(%br) grad(%qr) state() hyper(%lr)
        %b2 = quantize %b1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
        commit always %a1 to %a : !altgrad.tensors<f32>, %b2 to %b : !altgrad.tensors<bf16>
      }}"""
    compiled = program.Program(rule)
    templatecases._defaults["lr"] = 0.25
    rows = compiled.rows([SIZES[:3], SIZES[3:]], groups=2)
    rows.offset, rows.tag, rows.whole = OFFSETS, TAGS, WHOLES
    agree(compiled, rows, [0, 1, 0, 0, 0, 2])


def philox(index, key):
    """The text of Philox4x32-10 (Salmon and others, 2011) in i64 operations; the name of its first word."""
    lines, count = [], 0

    def op(name, *operands):
        nonlocal count
        count += 1
        lines.append(f"%p{count} = arith.{name} {', '.join(operands)} : i64")
        return f"%p{count}"

    def constant(value):
        return op("constant", str(value))

    mask, half = constant(0xFFFFFFFF), constant(32)
    words = [op("andi", index, mask), op("shrui", index, half), constant(0), constant(0)]
    keys = [op("andi", key, mask), op("shrui", key, half)]
    for _ in range(10):
        first = op("muli", words[0], constant(0xD2511F53))
        second = op("muli", words[2], constant(0xCD9E8D57))
        words = [op("xori", op("xori", op("shrui", second, half), words[1]), keys[0]), op("andi", second, mask),
                 op("xori", op("xori", op("shrui", first, half), words[3]), keys[1]), op("andi", first, mask)]
        keys = [op("andi", op("addi", keys[0], constant(0x9E3779B9)), mask),
                op("andi", op("addi", keys[1], constant(0xBB67AE85)), mask)]
    return "\n".join(lines), words[0]


def test_philox_can_be_written():
    """The paper's known answer: counter 0 and key 0 give 6627e8d5 first."""
    text, word = philox("%i", "%k")
    compiled = program.Program(f"""
      altgrad.step @s(out %low: !altgrad.tensors<f32>, out %high: !altgrad.tensors<f32>) {{
        %i = index : i64
        %k = tag : i64
        {text}
        %mask = arith.constant 65535 : i64
        %sixteen = arith.constant 16 : i64
        %l = arith.andi {word}, %mask : i64
        %h = arith.shrui {word}, %sixteen : i64
        %lf = arith.sitofp %l : i64 to f32
        %hf = arith.sitofp %h : i64 to f32
        %ll = collect %lf : f32 to !altgrad.reals
        %hl = collect %hf : f32 to !altgrad.reals
        commit always %ll to %low : !altgrad.tensors<f32>, %hl to %high : !altgrad.tensors<f32>
      }}""")
    after = agree(compiled, rows_of(compiled), [0, 1, 0, 2, 0, 0])
    low, high = (after[name][:1].view(np.float32)[0] for name in ("low", "high"))
    assert (int(high) << 16 | int(low)) == 0x6627E8D5


def test_what_waits_between_sweeps_is_a_number():
    """A choice and an integer of old content are wanted after it is overwritten: recomputed from f32."""
    compiled = program.Program("""
      altgrad.step @s(inout %a: !altgrad.tensors<f32>, in %p: !altgrad.tensors<f32>,
                      in %q: !altgrad.tensors<f32>, in %r: !altgrad.tensors<f32>,
                      out %b: !altgrad.tensors<f32>, out %c: !altgrad.tensors<f32>) {
        %al = dequantize %a : !altgrad.tensors<f32>
        %pl = dequantize %p : !altgrad.tensors<f32>
        %ql = dequantize %q : !altgrad.tensors<f32>
        %rl = dequantize %r : !altgrad.tensors<f32>
        %x = element %al
        %pe = element %pl
        %qe = element %ql
        %re = element %rl
        %pq = arith.addf %pe, %qe : f32
        %pqr = arith.addf %pq, %re : f32
        %all = arith.addf %pqr, %x : f32
        %up = arith.cmpf ogt, %all, %x : f32
        %sum = reduce max %all over step : f32
        %square = arith.mulf %all, %all : f32
        %scaled = arith.mulf %square, %sum : f32
        %one = arith.select %up, %scaled, %sum : f32
        %i = index : i64
        %two = arith.constant 2 : i64
        %double = arith.muli %i, %two : i64
        %chosen = arith.select %up, %i, %double : i64
        %number = arith.sitofp %chosen : i64 to f32
        %with = arith.addf %number, %one : f32
        %a1 = collect %square : f32 to !altgrad.reals
        %b1 = collect %with : f32 to !altgrad.reals
        %c1 = collect %all : f32 to !altgrad.reals
        commit always %a1 to %a : !altgrad.tensors<f32>, %b1 to %b : !altgrad.tensors<f32>,
            %c1 to %c : !altgrad.tensors<f32>
      }""")
    agree(compiled, rows_of(compiled), [0, 1, 0, 2, 0, 0], special=0)
