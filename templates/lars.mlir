// LARS: SGD with a trust ratio for each tensor (You, Gitman and Ginsburg, 2017).
// https://arxiv.org/abs/1708.03888
// Order of timm's Lars: the ratio counts where there is a decay, or with `always`.
rule lars(param w, grad g, state buf, lr = 1.0, momentum = 0.0, dampening = 0.0, decay = 0.0, trust_coeff = 1e-3,
          eps = 1e-8, step t, option momentum_on nesterov trust_clip always maximize)
  g = -g if maximize else g
  wnorm = norm(w)
  gnorm = norm(g)
  both = wnorm > 0 and gnorm > 0
  ratio = trust_coeff * wnorm / (gnorm + wnorm * decay + eps) if both else 1.0
  ratio = minimum(ratio / lr, 1.0) if trust_clip else ratio
  adapted = fma(decay, w if decay != 0 else -0.0, g) * ratio
  g = adapted if always or decay != 0 else g
  next = g if t == 1 else fma(1 - dampening, g, momentum * buf)
  buf = next if momentum_on else buf
  g = (fma(momentum, next, g) if nesterov else next) if momentum_on else g
  w = fma(-lr, g, w)
