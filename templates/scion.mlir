// Scion: steps of one length in the norm of each layer, such as with all singular values 1 (Pethick et al., 2025).
// https://arxiv.org/abs/2502.07529
// Order of the authors' code. Of matrices; by signs of the last layer; by the root of the mean square of vectors.
rule scion(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, eps = 1e-7, scale = 1.0,
           option momentum_on unconstrained maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  o = orthogonalize(buf if momentum_on else g, eps, coefficients=jordan, steps=5, in=bf16, length=added)
  w = w if unconstrained else w * (1 - lr)
  w = w - lr * scale * scale_by_shape(unclamped) * o
rule scion_sign(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, scale = 1.0, option momentum_on unconstrained maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  w = w if unconstrained else w * (1 - lr)
  w = w - lr * scale / columns * sign(buf if momentum_on else g)
rule scion_bias(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, scale = 1.0, option momentum_on unconstrained maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  u = buf if momentum_on else g
  w = w if unconstrained else w * (1 - lr)
  w = w - lr * scale * (u / (rms(u) + 1e-8))
