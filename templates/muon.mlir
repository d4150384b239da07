// Muon: momentum whose singular values are all brought near 1 (K. Jordan, 2024), for matrices.
//
//   buf <- buf + (1 - momentum) (g - buf)
//   u   <- buf + (1 - momentum) (g - buf)            (`plain`: buf, without Nesterov's look ahead)
//   w   <- w (1 - lr decay) - lr scale NS(u),  scale = sqrt(max(1, rows / columns))
//
// Operation order of torch.optim.Muon 2.11 for momentum >= 0.5; `match_rms`: 0.2 sqrt(max(rows, columns)); `unclamped`:
// sqrt(rows / columns).
altgrad.rule @muon(param %w: f32, grad %g: f32, state %buf: f32,
    hyper %lr: f64 = 1.0e-3, hyper %momentum: f64 = 0.95, hyper %decay: f64 = 0.1, hyper %eps: f64 = 1.0e-7,
    option %plain: i1 = false, option %match_rms: i1 = false, option %unclamped: i1 = false) {
  %one = constant 1.0 : f64
  %rest = subf %one, %momentum : f64
  %gain = truncf %rest : f64 to f32
  %change = subf %g, %buf : f32
  %buf1 = math.fma %gain, %change, %buf : f32
  %hold = truncf %momentum : f64 to f32
  %unit = constant 1.0 : f32
  %look = subf %unit, %hold : f32
  %left = subf %g, %buf1 : f32
  %ahead = math.fma %look, %left, %buf1 : f32
  %u = select %plain, %buf1, %ahead : f32

  %o = altgrad.orthogonalize %u coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)

  %rows = altgrad.dim rows : i64
  %columns = altgrad.dim columns : i64
  %r = sitofp %rows : i64 to f64
  %c = sitofp %columns : i64 to f64
  %tall = divf %r, %c : f64
  %least = maximumf %one, %tall : f64
  %ratio = select %unclamped, %tall, %least : f64
  %longer = maximumf %r, %c : f64
  %share = constant 0.04 : f64
  %most = mulf %share, %longer : f64
  %square = select %match_rms, %most, %ratio : f64
  %scale = math.sqrt %square : f64

  %shrink = mulf %lr, %decay : f64
  %kept = subf %one, %shrink : f64
  %keep = truncf %kept : f64 to f32
  %w0 = mulf %w, %keep : f32
  %rate = mulf %lr, %scale : f64
  %down = negf %rate : f64
  %step = truncf %down : f64 to f32
  %w1 = math.fma %step, %o, %w0 : f32
  altgrad.yield param(%w1) state(%buf1)
}
