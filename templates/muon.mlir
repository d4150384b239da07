// Muon: momentum whose singular values are all brought near 1 (K. Jordan, 2024), for matrices.
//
//   buf <- buf + (1 - momentum) (g - buf)
//   u   <- buf + (1 - momentum) (g - buf)            (`plain`: buf, without Nesterov's look ahead)
//   w   <- w (1 - lr decay) - lr scale NS(u),  scale = sqrt(max(1, rows / columns))
//
// Operation order of torch.optim.Muon 2.11.
altgrad.rule @muon(param %w: f32, grad %g: f32, state %buf: f32,
    hyper %lr: f64 = 1.0e-3, hyper %momentum: f64 = 0.95, hyper %decay: f64 = 0.1, hyper %eps: f64 = 1.0e-7,
    option %plain: i1 = false) {
  %one = constant 1.0 : f64
  %rest = subf %one, %momentum : f64
  %gain = truncf %rest : f64 to f32
  %buf1 = altgrad.lerp %buf to %g by %gain : f32
  %hold = truncf %momentum : f64 to f32
  %ahead = altgrad.lerp %g to %buf1 by %hold : f32
  %u = select %plain, %buf1, %ahead : f32
  %o = altgrad.orthogonalize %u coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)

  %scale = altgrad.scale_by_shape original : f64
  %rate = mulf %lr, %scale : f64
  %shrink = mulf %lr, %decay : f64
  %w1 = altgrad.apply_step %w along %o rate(%rate) decay(%shrink) : f32
  altgrad.yield param(%w1) state(%buf1)
}
