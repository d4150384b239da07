// Adagrad (Duchi, Hazan and Singer, 2011).
//
//   g   <- g + decay w
//   sum <- sum + g^2
//   w   <- w - lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + eps)
//
// Operation order of torch 2.11 on the CPU, with an IEEE root. torch's
// `initial_accumulator_value` is what the caller puts into `sum`.
altgrad.rule @adagrad(
    param %w: f32, grad %g: f32, state %sum: f32,
    hyper %lr: f64 = 1.0e-2, hyper %lr_decay: f64 = 0.0, hyper %eps: f64 = 1.0e-10,
    hyper %decay: f64 = 0.0, step %t: i64, option %maximize: i1 = false) {
  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g + decay w; without decay an infinite w leaves g alone
  %decay32 = truncf %decay : f64 to f32
  %none = constant 0.0 : f64
  %decays = cmpf une, %decay, %none : f64
  %coupled = math.fma %decay32, %w, %g0 : f32
  %g1 = select %decays, %coupled, %g0 : f32

  // sum <- sum + g^2
  %sum1 = math.fma %g1, %g1, %sum : f32

  // w <- w - lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + eps)
  %one = constant 1.0 : f64
  %count = sitofp %t : i64 to f64
  %past = subf %count, %one : f64
  %slower = mulf %past, %lr_decay : f64
  %by = addf %one, %slower : f64
  %rate = divf %lr, %by : f64
  %down = negf %rate : f64
  %step = truncf %down : f64 to f32
  %eps32 = truncf %eps : f64 to f32
  %root = math.sqrt %sum1 : f32
  %denom = addf %root, %eps32 : f32
  %sg = mulf %step, %g1 : f32
  %dw = divf %sg, %denom : f32
  %w1 = addf %w, %dw : f32
  altgrad.yield param(%w1) state(%sum1)
}
