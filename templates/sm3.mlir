// SM3: Adagrad that keeps its largest sums of each row and of each column (Anil et al., 2019).
// https://arxiv.org/abs/1901.11150
// SM3-II. Without `momentum_on` no buffer is stored. In a vector, a matrix of one row, each element has its own sum.
rule sm3(param w, grad g, state buf, row row_max, column col_max, lr = 0.1, momentum = 0.0, beta = 0.0, eps = 1e-30,
         option momentum_on maximize)
  g = -g if maximize else g
  least = minimum(f32(row_max), col_max)
  v = least * beta + (1 - beta) * (g * g) if beta > 0 else least + g * g
  row_max = maximum(f32(row_max), max(v over row)) if beta > 0 else max(v over row)
  col_max = maximum(col_max, max(v over column)) if beta > 0 else max(v over column)
  u = g / sqrt(v + eps)
  buf = lerp(u, buf, momentum) if momentum_on else buf
  w = w - lr * (buf if momentum_on else u)
