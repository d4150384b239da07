altgrad.rule @copy(param %w: f32, grad %g: f32) {
  %w1 = negf %g : f32
  altgrad.yield param(%w1) state()
}
