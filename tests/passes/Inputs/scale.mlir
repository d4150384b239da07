// A rule that lies on the rule path.
altgrad.rule @scale(param %w: f32, grad %g: f32, hyper %lr: f64) {
  %rate = truncf %lr : f64 to f32
  %w1 = mulf %rate, %w : f32
  altgrad.yield param(%w1) state()
}
