// Names close to those of a generated step do no harm.
altgrad.rule @locals(param %w: f32, grad %g: f32, state %w_old: f32, state %w_new: f32,
                     hyper %step_one: f64, hyper %g_value: f64, step %t: i64) {
  altgrad.yield param(%w_old) state(%g, %w)
}
