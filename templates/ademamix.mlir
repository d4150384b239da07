// AdEMAMix: Adam with a second, slow average (Pagliardini, Ablin and Grangier, 2024).
// https://arxiv.org/abs/2409.03137
// Operation order of the authors' PyTorch code. alpha_t grows linearly from 0 and beta3_t from beta1, linearly in its
// half-life, over as many steps as their warm-ups say (0: none). Without decay an infinite w leaves u alone.
rule ademamix(param w, grad g, state fast slow v, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, alpha = 2.0,
              eps = 1e-8, decay = 0.0, alpha_warmup = 0.0, beta3_warmup = 0.0, step t, option maximize)
  g = -g if maximize else g
  alpha_t = t / alpha_warmup * alpha if t < alpha_warmup else alpha
  s = t / beta3_warmup
  between = exp(1 / ((1 - s) / log(beta1 + 1e-8) + s / log(beta3 + 1e-8)))
  beta3_t = between if t < beta3_warmup else beta3
  fast = fma(1 - beta1, g, beta1 * fast)
  slow = fma(1 - beta3_t, g, beta3_t * slow)
  v = fma((1 - beta2) * g, g, beta2 * v)
  u = (fast / (1 - beta1^t) + alpha_t * slow) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
  w = w + -lr * fma(decay, w if decay != 0 else -0.0, u)
