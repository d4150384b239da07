// Lion: the sign of an interpolated momentum (Chen et al., 2023).
//
//   w <- w (1 - lr decay)
//   u <- sign(beta1 m + (1 - beta1) g)
//   w <- w - lr u
//   m <- beta2 m + (1 - beta2) g
//
// Operation order of the authors' PyTorch code. The sign of 0 and of a NaN is 0.
altgrad.rule @lion(
    param %w: f32, grad %g: f32, state %m: f32,
    hyper %lr: f64 = 1.0e-4, hyper %beta1: f64 = 0.9, hyper %beta2: f64 = 0.99,
    hyper %decay: f64 = 0.0, option %maximize: i1 = false) {
  %one = constant 1.0 : f64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // w <- w (1 - lr decay)
  %shrink = mulf %lr, %decay : f64
  %kept = subf %one, %shrink : f64
  %keep = truncf %kept : f64 to f32
  %w0 = mulf %w, %keep : f32

  // u <- sign(beta1 m + (1 - beta1) g)
  %rest1 = subf %one, %beta1 : f64
  %gain1 = truncf %rest1 : f64 to f32
  %hold1 = truncf %beta1 : f64 to f32
  %old1 = mulf %hold1, %m : f32
  %new1 = mulf %gain1, %g0 : f32
  %mixed = addf %old1, %new1 : f32
  %zero = constant 0.0 : f32
  %unit = constant 1.0 : f32
  %signed = math.copysign %unit, %mixed : f32
  %some = cmpf one, %mixed, %zero : f32
  %u = select %some, %signed, %zero : f32

  // w <- w - lr u
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %w1 = math.fma %step, %u, %w0 : f32

  // m <- beta2 m + (1 - beta2) g
  %rest2 = subf %one, %beta2 : f64
  %gain2 = truncf %rest2 : f64 to f32
  %hold2 = truncf %beta2 : f64 to f32
  %old2 = mulf %hold2, %m : f32
  %m1 = math.fma %gain2, %g0, %old2 : f32
  altgrad.yield param(%w1) state(%m1)
}
