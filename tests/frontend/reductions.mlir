// Every reduction, over the tensor, units and blocks.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
rule reductions(param w, grad g, unit s, lr = 1e-3)
  // CHECK: altgrad.reduce add %g over tensor : f32
  // CHECK: altgrad.reduce sumsq %g over unit : f32
  // CHECK: altgrad.reduce max %g over block<1x32> : f32
  // CHECK: altgrad.reduce absmax %g over block<32x1> : f32
  kinds = sum(g over tensor) + sumsq(g over unit) + max(g over block<1x32>) + absmax(g over block<32x1>)
  // CHECK: altgrad.reduce add %w over tensor : f32
  // CHECK: %[[ROWS:.*]] = altgrad.dim rows : i64
  // CHECK: %[[COLUMNS:.*]] = altgrad.dim columns : i64
  // CHECK: altgrad.dim batch : i64
  // CHECK: divf %{{.*}}, %{{.*}} : f64
  average = mean(w)
  // CHECK: altgrad.dim unit : i64
  // CHECK: math.sqrt %{{.*}} : f64
  root = rms(g over unit)
  // CHECK: altgrad.reduce add %g over block<1x64> : f32
  // CHECK: %[[SHARE:.*]] = constant 6.400000e+01 : f32
  // CHECK: divf %{{.*}}, %[[SHARE]] : f32
  near = mean(g over block<1x64>)
  // CHECK: %[[W:.*]] = altgrad.reduce sumsq %w over tensor : f32
  // CHECK: %[[WIDE:.*]] = extf %[[W]] : f32 to f64
  // CHECK: math.sqrt %[[WIDE]] : f64
  // CHECK: math.sqrt %[[W]] : f32
  length = norm(w)
  single = sqrt(f32(sumsq(w)))
  // CHECK: %[[NEG:.*]] = negf %w : f32
  // CHECK: %[[MOST:.*]] = altgrad.reduce max %[[NEG]] over tensor : f32
  // CHECK: negf %{{.*}} : f64
  least = min(w)
  // CHECK: %[[POSITIVE:.*]] = cmpf ogt, %g, %{{.*}} : f32
  // CHECK: altgrad.reduce and %[[POSITIVE]] over tensor : i1
  // CHECK: altgrad.reduce count %[[POSITIVE]] over tensor : i1
  // CHECK: cmpf ogt, %{{.*}}, %{{.*}} : f64
  flags = all(g > 0) and any(g > 0)
  share = count(g > 0) / numel
  sizes = rows + columns
  s = max(g over unit)
  w = w - lr * g
