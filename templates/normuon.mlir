// NorMuon: Muon whose rows have one size on average (Z. Li et al., 2025), for matrices.
//   o <- NS(u), with Muon's u;  second <- second + (1 - beta) (mean(o^2) - second), of each row
//   n <- o / (sqrt(second) + 1e-10);  w <- w (1 - lr decay) - lr scale n |o| / (|n| + 1e-10)
altgrad.rule @normuon(param %w: f32, grad %g: f32, state %buf: f32, state %second: f32 per unit,
    hyper %lr: f64 = 0.02, hyper %momentum: f64 = 0.95, hyper %beta: f64 = 0.95, hyper %decay: f64 = 0.0,
    hyper %eps: f64 = 1.0e-7, option %plain: i1 = false) {
  %one = constant 1.0 : f64
  %rest = subf %one, %momentum : f64
  %gain = truncf %rest : f64 to f32
  %buf1 = altgrad.lerp %buf to %g by %gain : f32
  %hold = truncf %momentum : f64 to f32
  %ahead = altgrad.lerp %g to %buf1 by %hold : f32
  %u = select %plain, %buf1, %ahead : f32
  %o = altgrad.orthogonalize %u coefficients<jordan> steps<5> in<bf16> length<added> eps(%eps)
  %mean = altgrad.row_mean_square %o : f32
  %share = subf %one, %beta : f64
  %part = truncf %share : f64 to f32
  %second1 = altgrad.lerp %second to %mean by %part : f32
  %root = math.sqrt %second1 : f32
  %small = constant 1.0e-10 : f32
  %size = addf %root, %small : f32
  %n = divf %o, %size : f32
  %even = altgrad.match_norm %n as %o : f32
  %scale = altgrad.scale_by_shape original : f64
  %rate = mulf %lr, %scale : f64
  %shrink = mulf %lr, %decay : f64
  %w1 = altgrad.apply_step %w along %even rate(%rate) decay(%shrink) : f32
  altgrad.yield param(%w1) state(%buf1, %second1)
}
