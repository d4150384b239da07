// ManifoldAdamW: AdamW whose gradients are measured in steps of a format's grid.
// https://github.com/ParkerWilliams/altgrad
// After altgrad/training/optimizer.py there: a gradient is multiplied by the distance of its weight's neighbours,
// 2^(floor(log2 |w|) - mantissa_bits), which is 1 where w is 0 or a NaN, and 1/128 everywhere with 7 mantissa bits, a grid
// of fixed point. `positions`: how many float32 numbers a weight has passed, half as far from a negative power of two.
rule manifoldadamw(param w, grad g, state m v position, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 1e-2,
                   mantissa_bits = 2.0, max_stiffness = 1e6, step t, option plain positions maximize)
  g = -g if maximize else g
  spacing = binade(w) * 0.5 ^ int(mantissa_bits)
  stiffness = 0.0078125 if mantissa_bits == 7 else spacing if abs(w) > 0 else 1.0
  g = g if plain else g * minimum(stiffness, max_stiffness)
  m = fma(1 - beta1, g, beta1 * m)
  v = fma((1 - beta2) * g, g, beta2 * v)
  new = w * (1 - lr * decay) + -(lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
  places = binade(w) * 1.1920928955078125e-07
  ulp = maximum(places * 0.5 if w == -binade(w) else places, 1.401298464324817e-45)
  position = position + (new - w) / ulp if positions else position
  w = new
