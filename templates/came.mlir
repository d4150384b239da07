// CAME: Adafactor with a momentum that is trusted less where it was unsteady (Luo et al., 2023).
// https://arxiv.org/abs/2307.02047
// Operation order of the authors' code. In a vector, a matrix of one row, the momentum is the step.
rule came(param w, grad g, state m, row exp_avg_sq_row exp_avg_res_row, column exp_avg_sq_col exp_avg_res_col,
          lr = 1e-3, beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, eps1 = 1e-30, eps2 = 1e-16, clip = 1.0, decay = 0.0)
  g2 = g * g + eps1
  exp_avg_sq_row = lerp(f32(exp_avg_sq_row), mean(g2 over row), 1 - beta2)
  exp_avg_sq_col = lerp(exp_avg_sq_col, mean(g2 over column), 1 - beta2)
  share = 1 if rows == 1 else exp_avg_sq_row / mean(exp_avg_sq_row over tensor)
  u = g * (f32(1 / sqrt(share)) * (1 / sqrt(exp_avg_sq_col)))
  u = u / f32(maximum(1, rms(u) / clip))
  m = lerp(m, u, 1 - beta1)
  r2 = (u - m) * (u - m) + eps2
  exp_avg_res_row = lerp(f32(exp_avg_res_row), mean(r2 over row), 1 - beta3)
  exp_avg_res_col = lerp(exp_avg_res_col, mean(r2 over column), 1 - beta3)
  steady = f32(1 / sqrt(exp_avg_res_row / mean(exp_avg_res_row over tensor))) * (1 / sqrt(exp_avg_res_col))
  w = (1 - lr * decay) * w - lr * (m * (1 if rows == 1 else steady))
