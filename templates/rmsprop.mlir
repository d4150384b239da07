// RMSprop (Tieleman and Hinton, 2012), centered and with momentum on request.
//
//   g    <- g + decay w
//   v    <- alpha v + (1 - alpha) g^2
//   mean <- mean + (1 - alpha) (g - mean)                        centered
//   u    <- g / (sqrt(v) + eps),  or  g / (sqrt(v - mean^2) + eps) centered
//   buf  <- momentum buf + u                                     momentum_on
//   w    <- w - lr u,             or  w - lr buf                 momentum_on
//
// Operation order of torch 2.11 on the CPU, with an IEEE root. Without momentum
// lr multiplies g before the division, with it the buffer after it. t is only
// counted, as in torch's state.
altgrad.rule @rmsprop(
    param %w: f32, grad %g: f32, state %v: f32, state %mean: f32, state %buf: f32,
    hyper %lr: f64 = 1.0e-2, hyper %alpha: f64 = 0.99, hyper %eps: f64 = 1.0e-8,
    hyper %momentum: f64 = 0.0, hyper %decay: f64 = 0.0, step %t: i64,
    option %centered: i1 = false, option %momentum_on: i1 = false,
    option %maximize: i1 = false) {
  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g + decay w; without decay an infinite w leaves g alone
  %decay32 = truncf %decay : f64 to f32
  %none = constant 0.0 : f64
  %decays = cmpf une, %decay, %none : f64
  %nothing = constant -0.0 : f32
  %held = select %decays, %w, %nothing : f32
  %g1 = math.fma %decay32, %held, %g0 : f32

  // v <- alpha v + (1 - alpha) g^2
  %one = constant 1.0 : f64
  %rest = subf %one, %alpha : f64
  %gain = truncf %rest : f64 to f32
  %hold = truncf %alpha : f64 to f32
  %old = mulf %hold, %v : f32
  %gg = mulf %gain, %g1 : f32
  %v1 = math.fma %gg, %g1, %old : f32

  // mean <- mean + (1 - alpha) (g - mean), from the nearer end as torch's lerp does
  %mean1 = altgrad.lerp %mean to %g1 by %gain : f32
  %meankeep = select %centered, %mean1, %mean : f32

  // denominator <- sqrt(v) + eps, or sqrt(v - mean^2) + eps
  %mirror = negf %mean1 : f32
  %spread = math.fma %mirror, %mean1, %v1 : f32
  %vhat = select %centered, %spread, %v1 : f32
  %eps32 = truncf %eps : f64 to f32
  %root = math.sqrt %vhat : f32
  %denom = addf %root, %eps32 : f32

  // buf <- momentum buf + g / denominator
  %mu = truncf %momentum : f64 to f32
  %oldbuf = mulf %mu, %buf : f32
  %u = divf %g1, %denom : f32
  %buf1 = addf %oldbuf, %u : f32
  %bufkeep = select %momentum_on, %buf1, %buf : f32

  // w <- w - lr buf, or w - lr g / denominator
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %heavy = math.fma %step, %buf1, %w : f32
  %sg = mulf %step, %g1 : f32
  %dw = divf %sg, %denom : f32
  %light = addf %w, %dw : f32
  %w1 = select %momentum_on, %heavy, %light : f32
  altgrad.yield param(%w1) state(%v1, %meankeep, %bufkeep)
}
