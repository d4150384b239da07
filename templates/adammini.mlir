// Adam-mini: AdamW with one second moment for each row (Zhang et al., 2024).
// https://arxiv.org/abs/2406.16793
// Order of the authors' code. A unit is an index of dimension 0, or a head; embeddings have a moment for each element, and
// what is neither has one for the tensor.
rule adammini(param w, grad g, state m, unit vmean, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.0, step t,
              option maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay)
  m = lerp(m, g, 1 - beta1)
  vmean = beta2 * vmean + (1 - beta2) * mean(g * g over unit)
  w = w - lr / (1 - beta1^t) * m * (1 / (sqrt(vmean) / sqrt(1 - beta2^t) + eps))
rule adammini_elements(param w, grad g, state m v, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.0, step t,
                       option maximize)
  g = -g if maximize else g
  v = fma((1 - beta2) * g, g, beta2 * v)
  w = w * (1 - lr * decay)
  m = lerp(m, g, 1 - beta1)
  w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
rule adammini_tensor(param w, grad g, state m, scalar vmean, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.0,
                     step t, option maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay)
  m = lerp(m, g, 1 - beta1)
  vmean = beta2 * vmean + (1 - beta2) * mean(g * g)
  w = w - lr / (1 - beta1^t) * m * (1 / (sqrt(vmean) / sqrt(1 - beta2^t) + eps))
