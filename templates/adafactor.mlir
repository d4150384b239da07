// Adafactor: Adam without momentum whose second moment is a row's times a column's (Shazeer and Stern, 2018).
// https://arxiv.org/abs/1804.04235
// Operation order of torch.optim.Adafactor. A vector is a matrix of one row: its columns have the moment of each element.
// `eps1` is 0 for the distance from 1 to the next number of the parameter's format.
rule adafactor(param w, grad g, row row_var, column col_var, step t, lr = 1e-2, beta2_decay = -0.8, eps1 = 0.0,
               eps2 = 1e-3, d = 1.0, decay = 0.0, option bf16 f16 maximize)
  g = -g if maximize else g
  rate = exp(beta2_decay * log(t))
  row_var = lerp(f32(row_var), mean(g * g over row), rate)
  col_var = lerp(col_var, mean(g * g over column), rate)
  least = eps1 if eps1 != 0 else 0.0078125 if bf16 else 0.0009765625 if f16 else 1.1920928955078125e-7
  share = 1 if rows == 1 else row_var / maximum(mean(row_var over tensor), least)
  u = g * minimum(f32(1 / sqrt(share)) * (1 / sqrt(col_var)), 1 / least)
  alpha = maximum(eps2, rms(w)) * minimum(lr, 1 / sqrt(t))
  w = fma(-(alpha / maximum(1, rms(u) / d)), u, (1 - lr * decay) * w)
