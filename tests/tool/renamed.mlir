// What has a new name is read under the old one for a release, with a warning that says the new one.
// RUN: sed -e 's/altgrad.match_norm/altgrad.resize/' %s | altgrad-opt 2>&1 | FileCheck %s
// RUN: altgrad-opt --rule=adamw --rule-path=%templates --exchange --others-multiply --emit=report 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: note: --others-multiply is --expect-remote-products now
// OPTION: step adamw_step

// CHECK: warning: 'altgrad.resize' is 'altgrad.match_norm' now
// CHECK: altgrad.match_norm %{{.*}} as
altgrad.rule @r(param %w: f32, grad %g: f32) {
  %even = altgrad.match_norm %g as %w : f32
  altgrad.yield param(%even) state()
}
