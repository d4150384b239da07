// LAMB: Adam with a trust ratio per tensor (You et al., 2020).
// https://arxiv.org/abs/1904.00962
// As apex: `l2` moves decay w from the update into the gradient; the ratio |w| / |u| is used where neither is 0 and
// decay is not 0, or everywhere with `nvlamb`. Clipping the global gradient norm is the step's business. Without decay
// an infinite w leaves g and u alone.
rule lamb(param w, grad g, state m v, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, decay = 1e-2, step t,
          option l2 nvlamb no_grad_averaging maximize)
  g = -g if maximize else g
  held = w if decay != 0 else -0.0
  g = fma(decay, held, g) if l2 else g
  m = fma(1 if no_grad_averaging else 1 - beta1, g, beta1 * m)
  v = fma((1 - beta2) * g, g, beta2 * v)
  plain = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
  u = plain if l2 else fma(decay, held, plain)
  wnorm = sqrt(f32(sumsq(w)))
  unorm = sqrt(f32(sumsq(u)))
  use = wnorm != 0 and unorm != 0 and (nvlamb or decay != 0)
  w = fma(-(lr * (wnorm / unorm) if use else lr), u, w)
