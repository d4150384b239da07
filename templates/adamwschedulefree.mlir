// Schedule-Free AdamW: an average of all weights in the place of a falling rate (Defazio et al., 2024).
// https://arxiv.org/abs/2405.15682
// Order of the authors' schedulefree 1.4. Between `train` and `eval` w is y, where gradients are taken, else x, the average.
rule adamwschedulefree(param w, grad g, state z v, scalar weight_sum, scalar lr_max = -1.0, lr = 2.5e-3, beta1 = 0.9,
                       beta2 = 0.999, eps = 1e-8, decay = 0.0, warmup_steps = 0.0, r = 0.0, weight_lr_power = 2.0, step t,
                       option maximize)
  g = -g if maximize else g
  z = w if t == 1 else z
  rate = lr * (t / warmup_steps) if t <= warmup_steps else lr
  lr_max = maximum(rate, lr_max)
  weight = (t + 0.0)^r * lr_max^weight_lr_power
  weight_sum = weight_sum + weight
  c = weight / weight_sum if weight_sum != 0 else 0.0
  v = fma((1 - beta2) * g, g, beta2 * v)
  n = fma(decay, w if decay != 0 else -0.0, g / (sqrt(v / (1 - beta2^t)) + eps))
  w = fma(rate * (beta1 * (1 - c) - 1), n, lerp(w, z, c))
  z = fma(-rate, n, z)
entry eval
  w = lerp(w, z, 1 - 1 / beta1)
entry train
  w = lerp(w, z, 1 - beta1)
