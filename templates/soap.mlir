// SOAP: Adam in the eigenbasis of Shampoo's preconditioners (N. Vyas et al., 2024).
// https://arxiv.org/abs/2409.11321
// Operation order of the authors' soap.py, with the momentum in the basis. `first`: the step that makes the bases and
// moves nothing; `refresh`: a step that turns them, by one power iteration and a QR decomposition; `row_free` and
// `column_free`: that side has no basis.
rule soap(param w, grad g, state m v, row_square row_gram row_basis, column_square column_gram column_basis, step t,
          lr = 3e-3, beta1 = 0.95, beta2 = 0.95, shampoo_beta = -1.0, eps = 1e-8, decay = 0.01,
          option first refresh row_free column_free normalize uncorrected)
  share = 1 - (shampoo_beta if shampoo_beta >= 0 else beta2)
  row_gram = row_gram if row_free else lerp(row_gram, matmul(g, transpose(g)), share)
  column_gram = column_gram if column_free else lerp(column_gram, matmul(transpose(g), g), share)
  y = g if row_free else matmul(transpose(row_basis), g)
  x = y if column_free else matmul(y, column_basis)
  x = 0.0 if first else x
  m = lerp(m, x, 1 - beta1)
  v = fma(1 - beta2, x * x, beta2 * v)
  a = m / (sqrt(v) + eps)
  b = a if row_free else matmul(row_basis, a)
  u = b if column_free else matmul(b, transpose(column_basis))
  u = u / (1e-30 + rms(u)) if normalize else u
  n = int(maximum(t - 1, 1))
  rate = lr if uncorrected else lr * sqrt(1 - beta2 ^ n) / (1 - beta1 ^ n)
  w = w if first else (w - rate * u) * (1 - lr * decay)
  row_order = order(row_gram, row_basis)
  column_order = order(column_gram, column_basis)
  row_turned = orthonormal(matmul(matmul(row_gram, row_basis), row_order))
  column_turned = orthonormal(matmul(matmul(column_gram, column_basis), column_order))
  vr = v if row_free else matmul(transpose(row_order), v)
  vc = vr if column_free else matmul(vr, column_order)
  mr = m if row_free else matmul(transpose(row_turned), matmul(row_basis, m))
  mc = mr if column_free else matmul(matmul(mr, transpose(column_basis)), column_turned)
  v = vc if refresh else v
  m = mc if refresh else m
  row_next = eigenbasis(row_gram) if first else row_turned if refresh else row_basis
  column_next = eigenbasis(column_gram) if first else column_turned if refresh else column_basis
  row_basis = row_basis if row_free else row_next
  column_basis = column_basis if column_free else column_next
