// Dion: steps along an orthonormal basis that a power iteration finds of the momentum (K. Ahn et al., 2025).
// https://arxiv.org/abs/2504.05295
// Formulas of the authors' dion_simple.py: b = m + g; P = orth(b Q); R = bᵀ P; m = b - (1 - mu) P Rᵀ;
//   Q = R / (|R of each column| + eps); w -= lr (sqrt(rows / columns) P Qᵀ + decay w)
// For matrices with as many rows as columns or more. `low_rank`: columns of Q that are 0 stay 0 and count for nothing.
// `turned`: the matrix is a transpose. Where a column of R is 0, as all are of a momentum of zeros, that of Q stays as it
// was. `vector`: AdamW.
rule dion(param w, grad g, state m v, column_square q, step t, lr = 0.01, mu = 0.95, beta1 = 0.9, beta2 = 0.95, eps = 1e-8,
          decay = 0.01, option vector low_rank turned)
  average = lerp(m, g, 1 - beta1)
  square = fma((1 - beta2) * g, g, beta2 * v)
  a = average / (1 - beta1 ^ t) / (sqrt(square / (1 - beta2 ^ t)) + eps)
  one = identity(q)
  last = one if sumsq(q) == 0 else q
  b = m + g
  p = orthonormal(matmul(b, last))
  every = matmul(transpose(b), p)
  size = maximum(absmax(every), 1e-30)
  all_r = every / size
  r = matmul(all_r, one if matmul(transpose(last), last) > 0 else 0.0) if low_rank else all_r
  squares = matmul(transpose(r), r)
  next = matmul(r, one / (sqrt(squares) + eps / size) if squares > 0 else 0.0)
  u = matmul(p, transpose(next))
  w = w * (1 - lr * decay)
  w = w - lr * a if vector else w - lr * sqrt(columns / rows if turned else rows / columns) * (u if u == u else 0.0)
  m = average if vector else b - (1 - mu) * size * matmul(p, transpose(r))
  v = square if vector else v
  q = q if vector else next + matmul(last, one if squares == 0 else 0.0)
