// SignSGD, and Signum with momentum (Bernstein et al., 2018).
//
//   w <- w (1 - lr decay)
//   m <- momentum m + (1 - momentum) g
//   w <- w - lr sign(m),   or   w - lr sign(g) without `momentum_on`
//
// The sign of 0 and of a NaN is 0. Without `momentum_on` no momentum is stored.
altgrad.rule @signsgd(
    param %w: f32, grad %g: f32, state %m: f32,
    hyper %lr: f64 = 1.0e-3, hyper %momentum: f64 = 0.9, hyper %decay: f64 = 0.0,
    option %momentum_on: i1 = false, option %maximize: i1 = false) {
  %one = constant 1.0 : f64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // w <- w (1 - lr decay)
  %shrink = mulf %lr, %decay : f64
  %kept = subf %one, %shrink : f64
  %keep = truncf %kept : f64 to f32
  %w0 = mulf %w, %keep : f32

  // m <- momentum m + (1 - momentum) g
  %rest = subf %one, %momentum : f64
  %gain = truncf %rest : f64 to f32
  %hold = truncf %momentum : f64 to f32
  %old = mulf %hold, %m : f32
  %mixed = math.fma %gain, %g0, %old : f32
  %m1 = select %momentum_on, %mixed, %m : f32

  // w <- w - lr sign(m)
  %pull = select %momentum_on, %mixed, %g0 : f32
  %zero = constant 0.0 : f32
  %unit = constant 1.0 : f32
  %signed = math.copysign %unit, %pull : f32
  %some = cmpf one, %pull, %zero : f32
  %u = select %some, %signed, %zero : f32
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %w1 = math.fma %step, %u, %w0 : f32
  altgrad.yield param(%w1) state(%m1)
}
