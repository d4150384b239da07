// Scion: steps of one length in the norm of each layer, such as with all singular values 1 (Pethick et al., 2025).
// https://arxiv.org/abs/2502.07529
// Order of the authors' code. Of matrices; of filters, `kernel` of which are for a pair of channels; by signs of the last
// layer; by the root of the mean square of vectors, and by the lengths of rows or of columns.
rule scion(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, eps = 1e-7, scale = 1.0,
           option momentum_on unconstrained unnormalized maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  o = orthogonalize(buf if momentum_on else g, eps, coefficients=jordan, steps=5, in=bf16, length=added)
  w = w if unconstrained else w * (1 - lr)
  w = w - lr * scale * (sqrt(rows) if unnormalized else scale_by_shape(unclamped)) * o
rule scion_filters(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, eps = 1e-7, scale = 1.0,
                   option momentum_on unconstrained maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  o = orthogonalize(buf if momentum_on else g, eps, coefficients=jordan, steps=5, in=bf16, length=added)
  w = w if unconstrained else w * (1 - lr)
  kernel = 9.0
  w = w - lr * scale * (scale_by_shape(unclamped) / sqrt(kernel)) * o
rule scion_sign(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, scale = 1.0,
                option momentum_on unconstrained unnormalized maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  w = w if unconstrained else w * (1 - lr)
  w = w - (lr * scale if unnormalized else lr * scale / columns) * sign(buf if momentum_on else g)
rule scion_bias(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, scale = 1.0, option momentum_on unconstrained maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  u = buf if momentum_on else g
  w = w if unconstrained else w * (1 - lr)
  w = w - lr * scale * (u / (rms(u) + 1e-8))
rule scion_rows(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, scale = 1.0,
                option momentum_on unconstrained unnormalized of_columns maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  u = buf if momentum_on else g
  w = w if unconstrained else w * (1 - lr)
  by = (1 / sqrt(columns) if unnormalized else rows / sqrt(columns)) if of_columns else (1.0 if unnormalized else sqrt(columns))
  w = w - lr * scale * (u / (norm(u over row) * by + 1e-8))
rule scion_columns(param w, grad g, state buf, lr = 1e-3, momentum = 1.0, scale = 1.0,
                   option momentum_on unconstrained unnormalized of_columns maximize)
  g = -g if maximize else g
  buf = lerp(buf, g, momentum) if momentum_on else buf
  u = buf if momentum_on else g
  w = w if unconstrained else w * (1 - lr)
  by = (1 / sqrt(rows) if unnormalized else columns / sqrt(rows)) if of_columns else (1.0 if unnormalized else sqrt(rows))
  w = w - lr * scale * (u / (norm(u over column) * by + 1e-8))
