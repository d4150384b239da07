// AdaHessian: Adam that divides by a diagonal of the Hessian (Yao et al., 2021).
// https://arxiv.org/abs/2006.00719
// Order of davda54/ada-hessian. `hess` is an estimate of the diagonal, which the caller makes.
rule adahessian(param w, grad g, state m exp_hessian_diag_sq, input hess, lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
                decay = 0.0, hessian_power = 1.0, step t, option maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay)
  m = fma(1 - beta1, g, beta1 * m)
  exp_hessian_diag_sq = fma((1 - beta2) * hess, hess, beta2 * exp_hessian_diag_sq)
  denom = (exp_hessian_diag_sq / (1 - beta2^t))^(hessian_power / 2) + eps
  w = w + -(lr / (1 - beta1^t)) * m / denom
