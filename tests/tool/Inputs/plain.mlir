// The smallest rule: w <- w - lr g.
altgrad.rule @plain(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0e-3) {
  %rate = truncf %lr : f64 to f32
  %dw = mulf %rate, %g : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state()
}
