// GridOptim: momentum that moves a parameter by rungs of its format's grid.
//
//   g <- g + decay x                             x: the number that the parameter is
//   velocity <- momentum velocity + g
//   w <- w - clamp(scale velocity, +-rung_clip)  w: its rung
//
// After altgrad/training/optimizer.py of ParkerWilliams, whose weights lie on a grid of
// 8 bits: with `rungs=ocp.e4m3fn` the step rounds by how many rungs w moves. Without,
// w and x are both the number, and this is momentum with a bound on its steps.
altgrad.rule @gridoptim(
    param %w: f32, value %x: f32, grad %g: f32, state %velocity: f32,
    hyper %scale: f64 = 6.0, hyper %momentum: f64 = 0.9, hyper %decay: f64 = 1.0e-4,
    hyper %rung_clip: f64 = 10.0, option %maximize: i1 = false) {
  // g <- -g to maximize
  %minus = negf %g : f32
  %g0 = select %maximize, %minus, %g : f32

  // g <- g + decay x
  %decay32 = truncf %decay : f64 to f32
  %g1 = math.fma %decay32, %x, %g0 : f32

  // velocity <- momentum velocity + g
  %hold = truncf %momentum : f64 to f32
  %old = mulf %hold, %velocity : f32
  %velocity1 = addf %old, %g1 : f32

  // w <- w - clamp(scale velocity, +-rung_clip); a NaN stays one
  %scale32 = truncf %scale : f64 to f32
  %most = truncf %rung_clip : f64 to f32
  %least = negf %most : f32
  %r = mulf %scale32, %velocity1 : f32
  %low = cmpf olt, %r, %least : f32
  %raised = select %low, %least, %r : f32
  %high = cmpf ogt, %raised, %most : f32
  %bounded = select %high, %most, %raised : f32
  %w1 = subf %w, %bounded : f32
  altgrad.yield param(%w1) state(%velocity1)
}
