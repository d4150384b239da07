// Muon: momentum whose singular values are all brought near 1 (K. Jordan, 2024), for matrices.
// https://kellerjordan.github.io/posts/muon/
// Operation order of torch.optim.Muon 2.11. `plain`: without Nesterov's look ahead.
rule muon(param w, grad g, state buf, lr = 1e-3, momentum = 0.95, decay = 0.1, eps = 1e-7, option plain)
  buf = lerp(buf, g, 1 - momentum)
  u = buf if plain else lerp(g, buf, momentum)
  o = orthogonalize(u, eps, coefficients=jordan, steps=5, in=bf16, length=clamped)
  w = descend(w, o, lr * scale_by_shape(original), lr * decay)
