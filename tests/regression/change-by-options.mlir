// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t
// An option chooses between two ends of a rule, of which one adds to the parameter: the change is what is added.
altgrad.step @rmsprop_step(
    in grad %g: !altgrad.tensors<f32>,
    in random %seed: i64,
    inout random %draws: i64,
    inout param %w: !altgrad.tensors<altgrad.e4m3>,
    inout state %v: !altgrad.tensors<f32>,
    in hyper %lr: f64 per_group = 1.000000e-02,
    in hyper %alpha: f64 per_group = 0.98999999999999999,
    in hyper %eps: f64 per_group = 1.000000e-08,
    in hyper %momentum: f64 per_group = 0.000000e+00,
    in hyper %decay: f64 per_group = 0.000000e+00,
    inout step %t: i64 per_tensor,
    out statistic %updates: f32 per_tensor,
    out statistic %flips: f32 per_tensor,
    inout statistic %steps: i64,
    out statistic %nonfinite: f32 per_tensor,
    out statistic %grad_norm: f32 per_tensor,
    out statistic %param_norm: f32 per_tensor,
    out statistic %update_norm: f32 per_tensor,
    out statistic %flips_up: f32 per_tensor,
    out statistic %saturated: f32 per_tensor,
    out statistic %lost: f32 per_tensor) {
  %seed.one = arith.constant 1 : i64
  %seed.next = arith.addi %draws, %seed.one : i64
  %g.value = dequantize %g : !altgrad.tensors<f32>
  %w.old = dequantize %w : !altgrad.tensors<altgrad.e4m3>
  %w.from = load %w : !altgrad.tensors<altgrad.e4m3>
  %w.place = recode %w : !altgrad.tensors<altgrad.e4m3> to !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
  %w.rung = dequantize %w.place : !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
  %v.old = dequantize %v : !altgrad.tensors<f32>
  %t.one = arith.constant 1 : i64
  %t.next = arith.addi %t, %t.one : i64
  %w.change, %v.new = update @rmsprop param(%w.rung) grad(%g.value) state(%v.old) hyper(%lr, %alpha, %eps, %momentum, %decay) step(%t.next) value(%w.old)
  %w.draw = draw seed(%seed) step(%seed.next) store(0) : i16
  %w.change.number = element %w.change
  %w.draws = collect %w.draw : i16 to !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 16, bias = 0, inf = false, nan = none, signed = false>>
  %w.uniforms = dequantize %w.draws : !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 16, bias = 0, inf = false, nan = none, signed = false>>
  %w.uniform = element %w.uniforms
  %w.sum = arith.subf %w.uniform, %w.change.number : f32
  %w.known = arith.cmpf ord, %w.sum, %w.sum : f32
  %w.whole = math.floor %w.sum : f32
  %w.nothing = arith.constant 0.000000e+00 : f32
  %w.floor = arith.select %w.known, %w.whole, %w.nothing : f32
  %w.by = arith.negf %w.floor : f32
  %w.next, %w.moved, %w.up, %w.beyond = advance_code %w.from by %w.by format<altgrad.e4m3> round<toward_zero> : i8
  %w.code = collect %w.next : i8 to !altgrad.tensors<altgrad.e4m3>
  %w.new = dequantize %w.code : !altgrad.tensors<altgrad.e4m3>
  %g.taken = element %g.value
  %g.pull = math.absf %g.taken : f32
  %g.least = arith.constant 1.000000e-10 : f32
  %g.pulls = arith.cmpf ogt, %g.pull, %g.least : f32
  %g.updates = reduce count %g.pulls over tensor : i1
  %g.flipped = reduce count %w.moved over tensor : i1
  %steps.one = arith.constant 1 : i64
  %steps.next = arith.addi %steps, %steps.one : i64
  %g.stored = dequantize %g : !altgrad.tensors<f32>
  %g.code = element %g.stored
  %g.size = math.absf %g.code : f32
  %g.infinity = arith.constant 0x7F800000 : f32
  %g.bad = arith.cmpf uge, %g.size, %g.infinity : f32
  %g.nonfinite = reduce count %g.bad over tensor : i1
  %g.whole = element %g.value
  %g.norm.squares = reduce sumsq %g.whole over tensor : f32
  %g.norm = math.sqrt %g.norm.squares : f32
  %g.before = element %w.old
  %g.after = element %w.new
  %g.change = arith.subf %g.after, %g.before : f32
  %g.weight.squares = reduce sumsq %g.before over tensor : f32
  %g.weight = math.sqrt %g.weight.squares : f32
  %g.moved.squares = reduce sumsq %g.change over tensor : f32
  %g.moved = math.sqrt %g.moved.squares : f32
  %g.ups = reduce count %w.up over tensor : i1
  %g.saturated = reduce count %w.beyond over tensor : i1
  %g.rest = arith.constant 0.000000e+00 : f32
  %g.moves = arith.cmpf one, %w.change.number, %g.rest : f32
  %g.stays = arith.constant true
  %g.still = arith.xori %w.moved, %g.stays : i1
  %g.misses = arith.andi %g.moves, %g.still : i1
  %g.lost = reduce count %g.misses over tensor : i1
  commit always
      %steps.next to %steps : i64,
      %g.nonfinite to %nonfinite : f32,
      %g.norm to %grad_norm : f32,
      %seed.next to %draws : i64,
      %t.next to %t : i64,
      %w.code to %w : !altgrad.tensors<altgrad.e4m3>,
      %g.updates to %updates : f32,
      %g.flipped to %flips : f32,
      %v.new to %v : !altgrad.tensors<f32>,
      %g.weight to %param_norm : f32,
      %g.moved to %update_norm : f32,
      %g.ups to %flips_up : f32,
      %g.saturated to %saturated : f32,
      %g.lost to %lost : f32
}
