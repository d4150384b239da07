// Named as a stream that --storage adds.
altgrad.rule @taken(param %w: f32, grad %g: f32, state %master: f32) {
  altgrad.yield param(%g) state(%w)
}
