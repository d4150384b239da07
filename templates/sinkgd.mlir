// SinkGD: gradients whose rows and columns all have a root mean square of 1 (Scetbon et al., 2025).
// https://arxiv.org/abs/2502.06742
// Five rounds, of which each divides the rows and then the columns; p and q are the factors of a row and of a column. What
// is 0 everywhere stays so.
rule sinkgd(param w, grad g, lr = 0.02, eps = 1e-12, decay = 0.0, option maximize)
  g = -g if maximize else g
  r = rms(g over row)
  p = 1 / (r + eps if r > 0 else 1)
  c = rms(g * f32(p) over column)
  q = 1 / (c + eps if c > 0 else 1)
  r = rms(g * (f32(p) * q) over row)
  p = p / (r + eps if r > 0 else 1)
  c = rms(g * (f32(p) * q) over column)
  q = q / (c + eps if c > 0 else 1)
  r = rms(g * (f32(p) * q) over row)
  p = p / (r + eps if r > 0 else 1)
  c = rms(g * (f32(p) * q) over column)
  q = q / (c + eps if c > 0 else 1)
  r = rms(g * (f32(p) * q) over row)
  p = p / (r + eps if r > 0 else 1)
  c = rms(g * (f32(p) * q) over column)
  q = q / (c + eps if c > 0 else 1)
  r = rms(g * (f32(p) * q) over row)
  p = p / (r + eps if r > 0 else 1)
  c = rms(g * (f32(p) * q) over column)
  q = q / (c + eps if c > 0 else 1)
  w = (1 - lr * decay) * w - lr * (g * (f32(p) * q))
