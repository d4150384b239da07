// Rprop: steps of each element's own size, which grows while the gradient keeps its sign (Riedmiller and Braun, 1993).
// https://doi.org/10.1109/ICNN.1993.298623
// Operation order of torch 2.11 on the CPU. A gradient that turns is left out, and kept as 0.
rule rprop(param w, grad g, state prev step_size, lr = 1e-2, eta1 = 0.5, eta2 = 1.2, least = 1e-6, most = 50.0, step t,
           option maximize)
  g = -g if maximize else g
  agrees = g * prev
  size = lr if t == 1 else step_size
  step_size = clamp(size * (eta2 if agrees > 0 else (eta1 if agrees < 0 else 1.0)), least, most)
  prev = 0.0 if agrees < 0 else g
  w = w - sign(prev) * step_size
