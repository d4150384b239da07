// SinkGD: gradients whose rows and columns all have a root mean square of 1 (Scetbon et al., 2025).
// https://arxiv.org/abs/2502.06742
// Five rounds, of which each divides the rows and then the columns; p and q are the factors of a row and of a column.
rule sinkgd(param w, grad g, lr = 0.02, eps = 1e-12, decay = 0.0, option maximize)
  g = -g if maximize else g
  p = 1 / (rms(g over row) + eps)
  q = 1 / (rms(g * f32(p) over column) + eps)
  p = p / (rms(g * (f32(p) * q) over row) + eps)
  q = q / (rms(g * (f32(p) * q) over column) + eps)
  p = p / (rms(g * (f32(p) * q) over row) + eps)
  q = q / (rms(g * (f32(p) * q) over column) + eps)
  p = p / (rms(g * (f32(p) * q) over row) + eps)
  q = q / (rms(g * (f32(p) * q) over column) + eps)
  p = p / (rms(g * (f32(p) * q) over row) + eps)
  q = q / (rms(g * (f32(p) * q) over column) + eps)
  w = (1 - lr * decay) * w - lr * (g * (f32(p) * q))
