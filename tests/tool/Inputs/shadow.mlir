// Named as a word of --storage.
altgrad.rule @shadow(param %w: f32, grad %g: f32, state %param: f32) {
  altgrad.yield param(%g) state(%w)
}
