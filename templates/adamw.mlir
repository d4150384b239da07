// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
//
//   w <- w (1 - lr decay)
//   m <- m + (1 - beta1) (g - m)
//   v <- beta2 v + (1 - beta2) g^2
//   w <- w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// Operation order of torch 2.11's fused kernel for the CPU (vector body). Every
// scalar is computed in f64 and rounded once, where it meets an element.
altgrad.rule @adamw(
    param %w: f32, grad %g: f32, state %m: f32, state %v: f32, state %vmax: f32,
    hyper %lr: f64 = 1.0e-3, hyper %beta1: f64 = 0.9, hyper %beta2: f64 = 0.999,
    hyper %eps: f64 = 1.0e-8, hyper %decay: f64 = 1.0e-2, step %t: i64,
    option %amsgrad: i1 = false, option %maximize: i1 = false) {
  %one = constant 1.0 : f64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // w <- w (1 - lr decay)
  %shrink = mulf %lr, %decay : f64
  %kept = subf %one, %shrink : f64
  %keep = truncf %kept : f64 to f32
  %w0 = mulf %w, %keep : f32

  // m <- m + (1 - beta1) (g - m), from the nearer end as torch's lerp does
  %rest1 = subf %one, %beta1 : f64
  %blend = truncf %rest1 : f64 to f32
  %m1 = altgrad.lerp %m to %g0 by %blend : f32

  // v <- beta2 v + (1 - beta2) g^2
  %rest2 = subf %one, %beta2 : f64
  %gain = truncf %rest2 : f64 to f32
  %hold = truncf %beta2 : f64 to f32
  %old = mulf %hold, %v : f32
  %gg = mulf %gain, %g0 : f32
  %v1 = math.fma %gg, %g0, %old : f32
  %vmax1 = maximumf %vmax, %v1 : f32
  %vhat = select %amsgrad, %vmax1, %v1 : f32
  %vkeep = select %amsgrad, %vmax1, %vmax : f32

  // w <- w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
  %p1 = math.fpowi %beta1, %t : f64, i64
  %p2 = math.fpowi %beta2, %t : f64, i64
  %bc1 = subf %one, %p1 : f64
  %bc2 = subf %one, %p2 : f64
  %rate = divf %lr, %bc1 : f64
  %down = negf %rate : f64
  %step = truncf %down : f64 to f32
  %root2 = math.sqrt %bc2 : f64
  %norm2 = truncf %root2 : f64 to f32
  %eps32 = truncf %eps : f64 to f32
  %root = math.sqrt %vhat : f32
  %scaled = divf %root, %norm2 : f32
  %denom = addf %scaled, %eps32 : f32
  %sm = mulf %step, %m1 : f32
  %dw = divf %sm, %denom : f32
  %w1 = addf %w0, %dw : f32
  altgrad.yield param(%w1) state(%m1, %v1, %vkeep)
} {altgrad.step_bound = "adamw"}
