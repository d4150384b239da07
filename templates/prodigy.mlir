// Prodigy: Adam that finds its learning rate, from the distance that parameters have gone (Mishchenko and Defazio, 2023).
// https://arxiv.org/abs/2306.06101
// Order of the authors' prodigyopt 1.1. d estimates that distance, and one d is of all tensors: its numerator is a running
// sum of <g, p0 - w>, its denominator the sum of |s|. Where no gradient was other than 0, nothing is estimated.
rule prodigy(param w, grad g, state m v s p0, global d = 1e-6, global d_max = 1e-6, global d_numerator, k, step t,
             lr = 1.0, beta1 = 0.9, beta2 = 0.999, beta3 = 0.0, eps = 1e-8, decay = 0.0, d0 = 1e-6, d_coef = 1.0,
             growth_rate = 1e300, option coupled bias_correction safeguard_warmup)
  p0 = w if t == 1 else p0
  k = k + 1
  b3 = sqrt(beta2) if beta3 == 0 else beta3
  dlr = d * lr * (sqrt(1 - beta2^t) / (1 - beta1^t)) if bias_correction else d * lr
  held = w if decay != 0 else 0.0
  g = fma(decay, held, g) if coupled else g
  ratio = d / d0
  d_numerator = b3 * d_numerator + sum(ratio * dlr * (g * (p0 - w)) over step)
  m = beta1 * m + d * (1 - beta1) * g
  v = beta2 * v + d * d * (1 - beta2) * (g * g)
  s = b3 * s + (ratio * d if safeguard_warmup else ratio * dlr) * g
  total = sum(abs(s) over step)
  hat = d_coef * d_numerator / total
  most = maximum(d_max, hat)
  grown = minimum(most, (maximum(d, hat) if d == d0 else d) * growth_rate)
  d_max = d_max if total == 0 else most
  shrunk = w if coupled else fma(-dlr * decay, held, w)
  d = d if total == 0 else grown
  w = shrunk - dlr * (m / (sqrt(v) + d * eps))
