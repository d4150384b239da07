// ADOPT: Adam that converges with any beta2 (Taniguchi et al., 2024).
//
//   first step:  v <- g^2, and nothing else
//   later:       n <- g / max(sqrt(v), eps), clamped to +-(t - 1)^(1/4)
//                m <- m + (1 - beta1) (n - m)
//                w <- w - lr m
//                v <- beta2 v + (1 - beta2) g^2
//
// The authors' published form and order: v is used before it is updated.
// g <- g + decay w, or `decoupled` w <- w - lr decay w; `no_clip`: no clamp.
altgrad.rule @adopt(
    param %w: f32, grad %g: f32, state %m: f32, state %v: f32,
    hyper %lr: f64 = 1.0e-3, hyper %beta1: f64 = 0.9, hyper %beta2: f64 = 0.9999,
    hyper %eps: f64 = 1.0e-6, hyper %decay: f64 = 0.0, step %t: i64,
    option %no_clip: i1 = false, option %decoupled: i1 = false,
    option %maximize: i1 = false) {
  %one = constant 1.0 : f64
  %start = constant 1 : i64
  %first = cmpi eq, %t, %start : i64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g + decay w, or w <- w - lr decay w; without decay an infinite w stays as it is
  %decay32 = truncf %decay : f64 to f32
  %none = constant 0.0 : f64
  %decays = cmpf une, %decay, %none : f64
  %nothing = constant -0.0 : f32
  %held = select %decays, %w, %nothing : f32
  %coupled = math.fma %decay32, %held, %g0 : f32
  %g1 = select %decoupled, %g0, %coupled : f32
  %fall = mulf %lr, %decay : f64
  %loss = negf %fall : f64
  %shrink = truncf %loss : f64 to f32
  %less = math.fma %shrink, %w, %w : f32
  %shrunk = select %decays, %less, %w : f32
  %w0 = select %decoupled, %shrunk, %w : f32

  // n <- g / max(sqrt(v), eps)
  %eps32 = truncf %eps : f64 to f32
  %root = math.sqrt %v : f32
  %denom = maximumf %root, %eps32 : f32
  %raw = divf %g1, %denom : f32

  // n <- n between -(t - 1)^(1/4) and (t - 1)^(1/4)
  %past = subi %t, %start : i64
  %count = sitofp %past : i64 to f64
  %square = math.sqrt %count : f64
  %fourth = math.sqrt %square : f64
  %high = truncf %fourth : f64 to f32
  %low = negf %high : f32
  %above = maximumf %raw, %low : f32
  %clamped = minimumf %above, %high : f32
  %n = select %no_clip, %raw, %clamped : f32

  // m <- m + (1 - beta1) (n - m)
  %rest1 = subf %one, %beta1 : f64
  %blend = truncf %rest1 : f64 to f32
  %dm = subf %n, %m : f32
  %mixed = math.fma %blend, %dm, %m : f32
  %m1 = select %first, %m, %mixed : f32

  // w <- w - lr m
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %moved = math.fma %step, %mixed, %w0 : f32
  %w1 = select %first, %w, %moved : f32

  // v <- beta2 v + (1 - beta2) g^2; at the first step g^2, as v is 0
  %rest2 = subf %one, %beta2 : f64
  %share = select %first, %one, %rest2 : f64
  %gain = truncf %share : f64 to f32
  %hold = truncf %beta2 : f64 to f32
  %old = mulf %hold, %v : f32
  %gg = mulf %gain, %g1 : f32
  %v1 = math.fma %gg, %g1, %old : f32
  altgrad.yield param(%w1) state(%m1, %v1)
}
