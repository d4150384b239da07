// LAMB: Adam with a trust ratio per tensor (You et al., 2020).
//
//   m <- beta1 m + (1 - beta1) g              (no_grad_averaging: + g)
//   v <- beta2 v + (1 - beta2) g^2
//   u <- m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + decay w
//   w <- w - lr |w| / |u| * u                 (|w| / |u|: 1 where one of them is 0)
//
// As apex: `l2` moves decay w from the update into the gradient; the ratio is
// used where decay is not 0, or everywhere with `nvlamb`. Clipping the global
// gradient norm is the step's business.
altgrad.rule @lamb(
    param %w: f32, grad %g: f32, state %m: f32, state %v: f32,
    hyper %lr: f64 = 1.0e-3, hyper %beta1: f64 = 0.9, hyper %beta2: f64 = 0.999,
    hyper %eps: f64 = 1.0e-6, hyper %decay: f64 = 1.0e-2, step %t: i64,
    option %l2: i1 = false, option %nvlamb: i1 = false,
    option %no_grad_averaging: i1 = false, option %maximize: i1 = false) {
  %one = constant 1.0 : f64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g + decay w in the l2 mode; without decay an infinite w leaves g alone
  %decay32 = truncf %decay : f64 to f32
  %none = constant 0.0 : f64
  %decays = cmpf une, %decay, %none : f64
  %nothing = constant -0.0 : f32
  %held = select %decays, %w, %nothing : f32
  %coupled = math.fma %decay32, %held, %g0 : f32
  %g1 = select %l2, %coupled, %g0 : f32

  // m <- beta1 m + (1 - beta1) g
  %rest1 = subf %one, %beta1 : f64
  %share = select %no_grad_averaging, %one, %rest1 : f64
  %gain1 = truncf %share : f64 to f32
  %hold1 = truncf %beta1 : f64 to f32
  %old1 = mulf %hold1, %m : f32
  %m1 = math.fma %gain1, %g1, %old1 : f32

  // v <- beta2 v + (1 - beta2) g^2
  %rest2 = subf %one, %beta2 : f64
  %gain2 = truncf %rest2 : f64 to f32
  %hold2 = truncf %beta2 : f64 to f32
  %old2 = mulf %hold2, %v : f32
  %gg = mulf %gain2, %g1 : f32
  %v1 = math.fma %gg, %g1, %old2 : f32

  // u <- m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + decay w
  %p1 = math.fpowi %beta1, %t : f64, i64
  %p2 = math.fpowi %beta2, %t : f64, i64
  %left1 = subf %one, %p1 : f64
  %left2 = subf %one, %p2 : f64
  %bc1 = truncf %left1 : f64 to f32
  %bc2 = truncf %left2 : f64 to f32
  %eps32 = truncf %eps : f64 to f32
  %mhat = divf %m1, %bc1 : f32
  %vhat = divf %v1, %bc2 : f32
  %root = math.sqrt %vhat : f32
  %denom = addf %root, %eps32 : f32
  %quotient = divf %mhat, %denom : f32
  %decayed = math.fma %decay32, %held, %quotient : f32
  %u = select %l2, %quotient, %decayed : f32

  // ratio <- lr |w| / |u|, or lr where that says nothing
  %wsum = altgrad.reduce sumsq %w over tensor : f32
  %usum = altgrad.reduce sumsq %u over tensor : f32
  %wnorm = math.sqrt %wsum : f32
  %unorm = math.sqrt %usum : f32
  %zero = constant 0.0 : f32
  %wsome = cmpf une, %wnorm, %zero : f32
  %usome = cmpf une, %unorm, %zero : f32
  %both = andi %wsome, %usome : i1
  %wanted = ori %nvlamb, %decays : i1
  %use = andi %both, %wanted : i1
  %trust = divf %wnorm, %unorm : f32
  %lr32 = truncf %lr : f64 to f32
  %adapted = mulf %lr32, %trust : f32
  %ratio = select %use, %adapted, %lr32 : f32

  // w <- w - ratio u
  %down = negf %ratio : f32
  %w1 = math.fma %down, %u, %w : f32
  altgrad.yield param(%w1) state(%m1, %v1)
}
