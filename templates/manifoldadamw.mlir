// ManifoldAdamW: AdamW whose gradients are measured in steps of a format's grid.
// https://github.com/ParkerWilliams/altgrad
//   g <- g min(S, max_stiffness),  S = 2^(floor(log2 |w|) - mantissa_bits)
//   w <- w (1 - lr decay)
//   m <- beta1 m + (1 - beta1) g
//   v <- beta2 v + (1 - beta2) g^2
//   w <- w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   position <- position + (w' - w) / ulp(w)   with `positions`: from w to the next larger f32
//
// After altgrad/training/optimizer.py of ParkerWilliams: S is 1 where w is 0 or a NaN,
// and 1/128 everywhere with 7 mantissa bits, a grid of fixed point.
altgrad.rule @manifoldadamw(
    param %w: f32, grad %g: f32, state %m: f32, state %v: f32, state %position: f32,
    hyper %lr: f64 = 1.0e-3, hyper %beta1: f64 = 0.9, hyper %beta2: f64 = 0.999,
    hyper %eps: f64 = 1.0e-8, hyper %decay: f64 = 1.0e-2,
    hyper %mantissa_bits: f64 = 2.0, hyper %max_stiffness: f64 = 1.0e6, step %t: i64,
    option %plain: i1 = false, option %positions: i1 = false,
    option %maximize: i1 = false) {
  %one = constant 1.0 : f64

  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g min(S, max_stiffness)
  %half = constant 0.5 : f64
  %bits = fptosi %mantissa_bits : f64 to i64
  %fraction = math.fpowi %half, %bits : f64, i64
  %share = truncf %fraction : f64 to f32
  %binade = altgrad.binade %w : f32
  %spacing = mulf %binade, %share : f32
  %unit = constant 1.0 : f32
  %zero = constant 0.0 : f32
  %none = cmpf ueq, %w, %zero : f32
  %stiff = select %none, %unit, %spacing : f32
  %seven = constant 7.0 : f64
  %fixed = cmpf oeq, %mantissa_bits, %seven : f64
  %step7 = constant 0.0078125 : f32
  %stiffness = select %fixed, %step7, %stiff : f32
  %most = truncf %max_stiffness : f64 to f32
  %bounded = minimumf %stiffness, %most : f32
  %measured = mulf %g0, %bounded : f32
  %g1 = select %plain, %g0, %measured : f32

  // w <- w (1 - lr decay)
  %shrink = mulf %lr, %decay : f64
  %kept = subf %one, %shrink : f64
  %keep = truncf %kept : f64 to f32
  %w0 = mulf %w, %keep : f32

  // m <- beta1 m + (1 - beta1) g
  %rest1 = subf %one, %beta1 : f64
  %gain1 = truncf %rest1 : f64 to f32
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
  %root = math.sqrt %v1 : f32
  %scaled = divf %root, %norm2 : f32
  %denom = addf %scaled, %eps32 : f32
  %sm = mulf %step, %m1 : f32
  %dw = divf %sm, %denom : f32
  %w1 = addf %w0, %dw : f32

  // position <- position + (w' - w) / ulp(w): half as far from a negative power of two, and
  // never less than the smallest number
  %last = constant 0x34000000 : f32
  %places = mulf %binade, %last : f32
  %lower = negf %binade : f32
  %turns = cmpf oeq, %w, %lower : f32
  %short = constant 0.5 : f32
  %halved = mulf %places, %short : f32
  %near = select %turns, %halved, %places : f32
  %least = constant 0x00000001 : f32
  %ulp = maximumf %near, %least : f32
  %moved = subf %w1, %w : f32
  %walked = divf %moved, %ulp : f32
  %position1 = addf %position, %walked : f32
  %position2 = select %positions, %position1, %position : f32
  altgrad.yield param(%w1) state(%m1, %v1, %position2)
}
