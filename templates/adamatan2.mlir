// Adam-atan2: Adam without eps, by the angle of m and the root of v (Everett et al., 2024).
// https://arxiv.org/abs/2407.05872
// Order of lucidrains' adam-atan2-pytorch.
rule adamatan2(param w, grad g, state m v, lr = 1e-4, beta1 = 0.9, beta2 = 0.99, decay = 0.0, cautious_factor = 1.0,
               a = 1.27, b = 1.0, step t, option cautious maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay)
  m = lerp(m, g, 1 - beta1)
  v = lerp(v, g * g, 1 - beta2)
  u = atan2(m * (1 / (1 - beta1^t)), sqrt(v * (b * b / (1 - beta2^t))))
  scale = 1.0 if u * g > 0 else cautious_factor
  u = u * (scale / maximum(mean(scale), 1e-5)) if cautious else u
  w = fma(-lr * a, u, w)
