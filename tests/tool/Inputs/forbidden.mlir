// No target has a tangent that gives the same bits as the others.
altgrad.rule @r(param %w: f32, grad %g: f32) {
  %s = math.tan %w : f32
  altgrad.yield param(%s) state()
}
