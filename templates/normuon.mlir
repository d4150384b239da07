// NorMuon: Muon whose rows have one size on average (Z. Li et al., 2025), for matrices.
// https://arxiv.org/abs/2510.05491
rule normuon(param w, grad g, state buf, unit second, lr = 0.02, momentum = 0.95, beta = 0.95, decay = 0.0, eps = 1e-7,
             option plain)
  buf = lerp(buf, g, 1 - momentum)
  u = buf if plain else lerp(g, buf, momentum)
  o = orthogonalize(u, eps, coefficients=jordan, steps=5, in=bf16, length=added)
  second = lerp(f32(second), row_mean_square(o), 1 - beta)
  n = match_norm(o / (sqrt(second) + 1e-10), o)
  w = descend(w, n, lr * scale_by_shape(original), lr * decay)
