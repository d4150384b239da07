// The body of a sweep inside a kernel: its scalars, and copies of it for elements.
#ifndef ALTGRAD_CODEGEN_SWEEPBODY_H
#define ALTGRAD_CODEGEN_SWEEPBODY_H

#include "codegen/common/KernelBuilder.h"

namespace altgrad {

/// Whether a sweep asks for the indices of its elements.
bool usesIndex(SweepOp sweep);
/// Whether it draws random bits for them.
bool usesDraws(SweepOp sweep);
/// Whether elements are done block by block: values go from one to another, or they
/// share bytes.
bool exchangesInBlocks(SweepOp sweep);
/// The reductions over blocks of neighbours in a body, in order.
llvm::SmallVector<ReduceOp> blockReductions(mlir::Region &body);

/// Elements that share a value of a stream, and bytes of that value or of two
/// packed codes.
unsigned blockOf(mlir::Value stream);
unsigned bytesOf(mlir::Value stream);
/// Elements of which bytesOf() says the memory: a block's, or two where codes are packed.
unsigned sharedBy(mlir::Value stream);
/// Bits that a stream has for an element that shares no value.
unsigned bitsOf(mlir::Value stream);
/// Where element `index` of a stream lies, or the value that its block shares.
mlir::Value elementAt(KernelBuilder &kernel, mlir::Value stream,
                      mlir::Value base, mlir::Value index);

/// What a copy of a body is made for: one element, or the neighbours in a vector.
struct BodyInputs {
  mlir::ValueRange loaded;
  /// The scalars, and results of block reductions; a pointer is where one waits.
  const mlir::IRMapping &known;
  /// The global index of the first element; null where usesIndex() is false.
  mlir::Value index;
  /// How far apart the elements of a vector are.
  int64_t apart = 1;
  /// What each `draw` of the body has drawn, in order.
  mlir::ValueRange draws = {};
};
/// The operations of a body that compute `wanted` from what `known` holds.
llvm::SetVector<mlir::Operation *> neededFor(mlir::ValueRange wanted,
                                             mlir::Region &body,
                                             const mlir::IRMapping &known);
/// Copies what computes `wanted` values of a body.
llvm::SmallVector<mlir::Value>
cloneValues(mlir::ImplicitLocOpBuilder &builder, mlir::Region &body,
            mlir::ValueRange wanted, const BodyInputs &inputs);
/// Copies a body; returns what it emits.
llvm::SmallVector<mlir::Value>
cloneSweepBody(mlir::ImplicitLocOpBuilder &builder, mlir::Region &body,
               const BodyInputs &inputs);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SWEEPBODY_H
