// D-Adapt Adam: Adam that finds its learning rate (Defazio and Mishchenko, 2023).
// https://arxiv.org/abs/2301.07733
// Order of the authors' dadaptation 3.2. One d is of all tensors; where no gradient was other than 0, nothing is estimated.
rule dadaptadam(param w, grad g, state m v s, global d = 1e-6, global numerator_weighted, k, step t, lr = 1.0, beta1 = 0.9,
                beta2 = 0.999, eps = 1e-8, decay = 0.0, growth_rate = 1e300, option decoupled bias_correction)
  k = k + 1
  root = sqrt(beta2)
  dlr = d * lr * (sqrt(1 - beta2^t) / (1 - beta1^t)) if bias_correction else d * lr
  g = g if decoupled else fma(decay, w if decay != 0 else -0.0, g)
  found = sum(dlr * (g * (s / (sqrt(v) + eps))) over step)
  m = fma(dlr * (1 - beta1), g, beta1 * m)
  v = fma((1 - beta2) * g, g, beta2 * v)
  s = fma(dlr * (1 - root), g, root * s)
  total = sum(abs(s) over step)
  weighted = root * numerator_weighted + (1 - root) * found
  grown = maximum(d, minimum(weighted / ((1 - root) * total), d * growth_rate))
  numerator_weighted = numerator_weighted if total == 0 else weighted
  d = d if total == 0 else grown
  w = fma(-(dlr * decay), w if decay != 0 else 0.0, w) if decoupled else w
  w = w - m / (sqrt(v) + eps)
