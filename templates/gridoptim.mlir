// GridOptim: momentum that moves a parameter by rungs of its format's grid.
// https://github.com/ParkerWilliams/altgrad
// After altgrad/training/optimizer.py of ParkerWilliams, whose weights lie on a grid of 8 bits: x is the number that the
// parameter is, and w its rung. With `rungs=ocp.e4m3fn` the step rounds by how many rungs w moves. Without, w and x are
// both the number, and this is momentum with a bound on its steps. A NaN stays one.
rule gridoptim(param w, value x, grad g, state velocity, scale = 6.0, momentum = 0.9, decay = 1e-4, rung_clip = 10.0,
               option maximize)
  g = -g if maximize else g
  velocity = momentum * velocity + fma(decay, x, g)
  r = scale * velocity
  most = f32(rung_clip)
  raised = -most if r < -most else r
  w = w - (most if raised > most else raised)
