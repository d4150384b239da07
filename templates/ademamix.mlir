// AdEMAMix: Adam with a second, slow average (Pagliardini, Ablin and Grangier, 2024).
//
//   fast <- beta1 fast + (1 - beta1) g
//   slow <- beta3_t slow + (1 - beta3_t) g
//   v    <- beta2 v + (1 - beta2) g^2
//   u    <- (fast / (1 - beta1^t) + alpha_t slow) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   w    <- w - lr (u + decay w)
//
// Operation order of the authors' PyTorch code. alpha_t grows linearly from 0 and
// beta3_t from beta1, linearly in its half-life, over as many steps as their
// warm-ups say (0: none).
altgrad.rule @ademamix(
    param %w: f32, grad %g: f32, state %fast: f32, state %slow: f32, state %v: f32,
    hyper %lr: f64 = 1.0e-3, hyper %beta1: f64 = 0.9, hyper %beta2: f64 = 0.999,
    hyper %beta3: f64 = 0.9999, hyper %alpha: f64 = 2.0, hyper %eps: f64 = 1.0e-8,
    hyper %decay: f64 = 0.0, hyper %alpha_warmup: f64 = 0.0,
    hyper %beta3_warmup: f64 = 0.0, step %t: i64, option %maximize: i1 = false) {
  %one = constant 1.0 : f64
  %count = sitofp %t : i64 to f64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // alpha_t <- alpha min(t / alpha_warmup, 1)
  %part = divf %count, %alpha_warmup : f64
  %partial = mulf %part, %alpha : f64
  %rising = cmpf olt, %count, %alpha_warmup : f64
  %alpha_t = select %rising, %partial, %alpha : f64
  %mix = truncf %alpha_t : f64 to f32

  // 1 / ln beta3_t <- (1 - s) / ln beta1 + s / ln beta3, s = t / beta3_warmup
  %tiny = constant 1.0e-8 : f64
  %b1 = addf %beta1, %tiny : f64
  %b3 = addf %beta3, %tiny : f64
  %ln1 = math.log %b1 : f64
  %ln3 = math.log %b3 : f64
  %s = divf %count, %beta3_warmup : f64
  %rest = subf %one, %s : f64
  %from = divf %rest, %ln1 : f64
  %to = divf %s, %ln3 : f64
  %inverse = addf %from, %to : f64
  %ln = divf %one, %inverse : f64
  %between = math.exp %ln : f64
  %slowing = cmpf olt, %count, %beta3_warmup : f64
  %beta3_t = select %slowing, %between, %beta3 : f64

  // fast <- beta1 fast + (1 - beta1) g
  %rest1 = subf %one, %beta1 : f64
  %gain1 = truncf %rest1 : f64 to f32
  %hold1 = truncf %beta1 : f64 to f32
  %old1 = mulf %hold1, %fast : f32
  %fast1 = math.fma %gain1, %g0, %old1 : f32

  // slow <- beta3_t slow + (1 - beta3_t) g
  %rest3 = subf %one, %beta3_t : f64
  %gain3 = truncf %rest3 : f64 to f32
  %hold3 = truncf %beta3_t : f64 to f32
  %old3 = mulf %hold3, %slow : f32
  %slow1 = math.fma %gain3, %g0, %old3 : f32

  // v <- beta2 v + (1 - beta2) g^2
  %rest2 = subf %one, %beta2 : f64
  %gain2 = truncf %rest2 : f64 to f32
  %hold2 = truncf %beta2 : f64 to f32
  %old2 = mulf %hold2, %v : f32
  %gg = mulf %gain2, %g0 : f32
  %v1 = math.fma %gg, %g0, %old2 : f32

  // u <- (fast / (1 - beta1^t) + alpha_t slow) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
  %p1 = math.fpowi %beta1, %t : f64, i64
  %p2 = math.fpowi %beta2, %t : f64, i64
  %left1 = subf %one, %p1 : f64
  %left2 = subf %one, %p2 : f64
  %bc1 = truncf %left1 : f64 to f32
  %root2 = math.sqrt %left2 : f64
  %norm2 = truncf %root2 : f64 to f32
  %eps32 = truncf %eps : f64 to f32
  %root = math.sqrt %v1 : f32
  %scaled = divf %root, %norm2 : f32
  %denom = addf %scaled, %eps32 : f32
  %quick = divf %fast1, %bc1 : f32
  %heavy = mulf %mix, %slow1 : f32
  %sum = addf %quick, %heavy : f32
  %u = divf %sum, %denom : f32

  // w <- w - lr (u + decay w); without decay an infinite w leaves u alone
  %decay32 = truncf %decay : f64 to f32
  %none = constant 0.0 : f64
  %decays = cmpf une, %decay, %none : f64
  %nothing = constant -0.0 : f32
  %held = select %decays, %w, %nothing : f32
  %u1 = math.fma %decay32, %held, %u : f32
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %dw = mulf %step, %u1 : f32
  %w1 = addf %w, %dw : f32
  altgrad.yield param(%w1) state(%fast1, %slow1, %v1)
}
