// The guard of fast-path bodies (SweepOps.td), from its beginning to its verdict.
#ifndef ALTGRAD_CODEGEN_COMMON_FASTPATHGUARD_H
#define ALTGRAD_CODEGEN_COMMON_FASTPATHGUARD_H

#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

class Guard {
public:
  Guard(CodeBuilder &builder, int64_t width);
  /// A fast-path body's last arguments, and the last values that it emits.
  void appendTo(SmallVectorImpl<Value> &arguments);
  void popFrom(SmallVectorImpl<Value> &emitted);
  /// Whether what was emitted is right, which it mostly is: i1.
  Value isValid();
  /// `fast` where that holds; else what `exact` makes, of the same types.
  SmallVector<Value> choose(ValueRange fast, function_ref<SmallVector<Value>()> exact);

private:
  CodeBuilder &builder;
  Value low, sum; // of each element
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_FASTPATHGUARD_H
