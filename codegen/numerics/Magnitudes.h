// How large and how small the numbers of a body may be where nothing is NaN.
#ifndef ALTGRAD_CODEGEN_MAGNITUDES_H
#define ALTGRAD_CODEGEN_MAGNITUDES_H

#include "dialect/CodeBuilder.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <optional>

namespace altgrad {

/// 0, or of a magnitude from 2^low to 2^high.
struct Magnitude {
  bool negative = true; // may be; -0 always may
  int low = -149, high = 128;
};

/// The scalar from outside the body that all elements of a vector are, or null.
Value uniformOf(Value vector);

class Magnitudes {
public:
  /// Of an f32 vector of a sweep's wide body. What it presumes of scalars, that
  /// they are from 0 to 2^divisorLimit, is added to `scalars`.
  Magnitude of(Value value, SetVector<Value> &scalars) const;

  /// It is tested: 0 or at least 2^leastTested.
  void setTested(Value value) { tested.insert(value); }
  /// It is the quotient of `n` and a scalar from 2^-divisorLimit to
  /// 2^divisorLimit.
  void setUniformQuotient(Value value, Value n) { numerators[value] = n; }

private:
  Magnitude compute(Value value, SetVector<Value> &scalars, unsigned depth) const;

  DenseSet<Value> tested;
  DenseMap<Value, Value> numerators;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_MAGNITUDES_H
