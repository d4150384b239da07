// Shampoo with inverse roots of averaged Gram matrices on both sides (V. Gupta et al., 2018; R. Anil et al., 2020).
// https://arxiv.org/abs/1802.09568
// Formulas of facebookresearch/optimizers' DistributedShampoo. `root`: a step that computes the roots; `early`: one before
// there are any; `graft`: the update is as long as Adam's; `row_free` and `column_free`: that side has no square.
rule shampoo(param w, grad g, state m v, row_square row_gram row_root, column_square column_gram column_root, step t,
             lr = 1e-2, beta1 = 0.9, beta2 = 1.0, eps = 1e-12, decay = 0.0, graft_beta2 = 0.999, graft_eps = 1e-8,
             option root early graft row_free column_free)
  share = 1 - beta2 if beta2 < 1 else 1.0
  begun = 1 - beta2 ^ t if beta2 < 1 else 1.0
  row_gram = row_gram if row_free else fma(share, matmul(g, transpose(g)), beta2 * row_gram)
  column_gram = column_gram if column_free else fma(share, matmul(transpose(g), g), beta2 * column_gram)
  row_now = row_gram / begun + eps * identity(row_gram)
  column_now = column_gram / begun + eps * identity(column_gram)
  row_next = inverse_root(row_now, 2) if column_free else inverse_root(row_now, 4)
  column_next = inverse_root(column_now, 2) if row_free else inverse_root(column_now, 4)
  row_root = row_root if row_free else row_next if root else row_root
  column_root = column_root if column_free else column_next if root else column_root
  m = lerp(m, g, 1 - beta1)
  f = m / (1 - beta1 ^ t)
  v = fma(1 - graft_beta2, g * g, graft_beta2 * v) if graft else v
  y = f if row_free else matmul(row_root, f)
  u = y if column_free else matmul(y, column_root)
  a = f / (sqrt(v / (1 - graft_beta2 ^ t)) + graft_eps)
  u = u * (norm(a) / (norm(u) + 1e-16)) if graft else u
  plain = a if graft else f
  u = plain if early else u
  w = w - lr * (u + decay * w)
