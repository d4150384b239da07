// ADOPT: Adam that converges with any beta2 (Taniguchi et al., 2024).
// https://arxiv.org/abs/2411.02853
// The authors' published form and order: v is used before it is updated, and the first step sets v alone. Of g there is
// n, clamped to +-(t - 1)^(1/4) unless `no_clip`. `decoupled`: w decays and not g. Without decay an infinite w stays.
rule adopt(param w, grad g, state m v, lr = 1e-3, beta1 = 0.9, beta2 = 0.9999, eps = 1e-6, decay = 0.0, step t,
           option no_clip decoupled maximize)
  g = -g if maximize else g
  coupled = fma(decay, w if decay != 0 else -0.0, g)
  shrunk = fma(-(lr * decay), w, w) if decay != 0 else w
  g = g if decoupled else coupled
  high = f32(sqrt(sqrt(t - 1)))
  raw = g / maximum(sqrt(v), eps)
  n = raw if no_clip else clamp(raw, -high, high)
  mixed = fma(1 - beta1, n - m, m)
  m = m if t == 1 else mixed
  w = w if t == 1 else fma(-lr, mixed, shrunk if decoupled else w)
  v = fma((1 if t == 1 else 1 - beta2) * g, g, beta2 * v)
