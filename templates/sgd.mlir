// SGD with momentum (Polyak, 1964; Nesterov, 1983; Sutskever et al., 2013).
//
//   g   <- g + decay w
//   buf <- momentum buf + (1 - dampening) g         (at the first step: g)
//   w   <- w - lr buf,   or   w - lr (g + momentum buf) with nesterov
//
// Operation order of torch 2.11 on the CPU. Without `momentum_on` no buffer is
// stored; without it torch's `nesterov` and `dampening` have no meaning.
altgrad.rule @sgd(
    param %w: f32, grad %g: f32, state %buf: f32,
    hyper %lr: f64 = 1.0e-3, hyper %momentum: f64 = 0.0, hyper %dampening: f64 = 0.0,
    hyper %decay: f64 = 0.0, step %t: i64,
    option %momentum_on: i1 = false, option %nesterov: i1 = false,
    option %maximize: i1 = false) {
  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g + decay w; without decay a g of -0 stays -0, and buf copies it
  %decay32 = truncf %decay : f64 to f32
  %coupled = math.fma %decay32, %w, %g0 : f32
  %none = constant 0.0 : f64
  %decays = cmpf une, %decay, %none : f64
  %g1 = select %decays, %coupled, %g0 : f32

  // buf <- momentum buf + (1 - dampening) g; the first g is taken whole
  %one = constant 1.0 : f64
  %rest = subf %one, %dampening : f64
  %gain = truncf %rest : f64 to f32
  %hold = truncf %momentum : f64 to f32
  %old = mulf %hold, %buf : f32
  %mixed = math.fma %gain, %g1, %old : f32
  %start = constant 1 : i64
  %first = cmpi eq, %t, %start : i64
  %buf1 = select %first, %g1, %mixed : f32
  %bufkeep = select %momentum_on, %buf1, %buf : f32

  // u <- buf, or g + momentum buf: a look ahead
  %ahead = math.fma %hold, %buf1, %g1 : f32
  %moved = select %nesterov, %ahead, %buf1 : f32
  %u = select %momentum_on, %moved, %g1 : f32

  // w <- w - lr u
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %w1 = math.fma %step, %u, %w : f32
  altgrad.yield param(%w1) state(%bufkeep)
}
