// Matrices, their products, and what the library makes of them.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
// CHECK-LABEL: altgrad.rule @ours
// CHECK: %[[O:.*]] = altgrad.orthogonalize %g coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)
// CHECK: %[[SCALE:.*]] = altgrad.scale_by_shape original : f64
// CHECK: %[[RATE:.*]] = mulf %lr, %[[SCALE]] : f64
// CHECK: %[[DECAY:.*]] = mulf %lr, %decay : f64
// CHECK: altgrad.apply_step %w along %[[O]] rate(%[[RATE]]) decay(%[[DECAY]]) : f32
rule ours(param w, grad g, lr = 1e-3, decay = 0.1, eps = 1e-7)
  w = descend(w, orthogonalize(g, eps), lr * scale_by_shape(original), lr * decay)

// CHECK-LABEL: altgrad.rule @words
// CHECK: altgrad.orthogonalize %g over unit coefficients<{{.*}}3.4{{.*}}> steps<8> in<f32> length<added> eps(
rule words(param w, grad g, lr = 1e-3)
  w = w - lr * orthogonalize(g, 1e-7, steps=8, in=f32, length=added, over=unit, coefficients=3.4445/-4.775/2.0315)

// CHECK-LABEL: altgrad.rule @products
// CHECK: %[[X:.*]] = altgrad.matrix %g : !altgrad.tensors<bf16>
// CHECK: %[[A:.*]] = altgrad.gram %[[X]] : !altgrad.tensors<bf16>
// CHECK: %[[B:.*]] = altgrad.product %[[A]], %[[A]] by 2.03150{{.*}} plus %[[A]] by -4.775{{.*}} : !altgrad.squares<bf16>
// CHECK: %[[Y:.*]] = altgrad.product %[[B]], %[[X]] plus %[[X]] by 3.4445{{.*}} : !altgrad.tensors<bf16>
// CHECK: altgrad.entry %[[Y]] : !altgrad.tensors<bf16>
rule products(param w, grad g, lr = 1e-3)
  x = matrix(g, bf16)
  a = gram(x)
  b = product(a, a, by=2.0315, plus=a, weight=-4.775)
  w = w - lr * product(b, x, plus=x, weight=3.4445)

// CHECK-LABEL: altgrad.rule @squares
// CHECK-SAME: state %l: f32 per rows x rows, state %q: f32 per rows x rows, state %r: f32 per columns x columns
// CHECK: %[[G:.*]] = altgrad.matrix %g : !altgrad.tensors<f32>
// CHECK: %[[L:.*]] = altgrad.matmul %[[G]], %[[G]] transposed : !altgrad.tensors<f32>, !altgrad.tensors<f32> to !altgrad.tensors<f32 per rows x rows>
// CHECK: %[[E:.*]] = altgrad.entry %[[L]] : !altgrad.tensors<f32 per rows x rows>
// CHECK: %[[MEAN:.*]] = altgrad.lerp %l to %[[E]] by
// CHECK: altgrad.matmul %{{.*}} transposed, %[[G]] : !altgrad.tensors<f32 per rows x rows>, !altgrad.tensors<f32> to !altgrad.tensors<f32>
// CHECK: %[[M:.*]] = altgrad.matrix %[[MEAN]] : !altgrad.tensors<f32 per rows x rows>
// CHECK: altgrad.factorize eigenbasis %[[M]] : !altgrad.tensors<f32 per rows x rows>
// CHECK: altgrad.factorize inverse_root %{{.*}} root 4.0{{.*}} : !altgrad.tensors<f32 per columns x columns>
rule squares(param w, grad g, row_square l q, column_square r, lr = 1e-3, beta = 0.9)
  l = lerp(l, matmul(g, transpose(g)), 1 - beta)
  x = matmul(transpose(q), g)
  q = eigenbasis(l)
  r = inverse_root(r + matmul(transpose(g), g), 4)
  w = w - lr * matmul(x, r)
