// Branches, and instructions that no dialect has.
#ifndef ALTGRAD_DIALECT_BUILDERS_INSTRUCTIONS_H
#define ALTGRAD_DIALECT_BUILDERS_INSTRUCTIONS_H

#include "dialect/builders/CodeBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace altgrad {

/// What one of two branches gives.
inline SmallVector<Value> branch(CodeBuilder &b, Value condition, TypeRange types,
                                 function_ref<SmallVector<Value>()> yes, function_ref<SmallVector<Value>()> no) {
  auto ifOp = mlir::scf::IfOp::create(b, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
  mlir::OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  mlir::scf::YieldOp::create(b, yes());
  b.setInsertionPointToStart(ifOp.elseBlock());
  mlir::scf::YieldOp::create(b, no());
  return SmallVector<Value>(ifOp.getResults());
}

inline Value branch(CodeBuilder &b, Value condition, Type type, function_ref<Value()> yes, function_ref<Value()> no) {
  auto one = [](function_ref<Value()> of) { return [of] { return SmallVector<Value>{of()}; }; };
  return branch(b, condition, TypeRange(type), one(yes), one(no))[0];
}

/// Done where a condition holds.
inline void when(CodeBuilder &b, Value condition, function_ref<void()> body) {
  auto branch = mlir::scf::IfOp::create(b, condition, /*withElse=*/false);
  mlir::OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

/// A loop that carries values; `body` gives their next ones.
inline mlir::scf::ForOp loopWith(CodeBuilder &b, Value from, Value to, Value by, ValueRange initial,
                                 function_ref<SmallVector<Value>(Value, SmallVector<Value>)> body) {
  return mlir::scf::ForOp::create(b, from, to, by, initial,
                                  [&](mlir::OpBuilder &inner, Location, Value index, ValueRange carried) {
                                    mlir::OpBuilder::InsertionGuard guard(b);
                                    b.setInsertionPoint(inner.getInsertionBlock(), inner.getInsertionPoint());
                                    mlir::scf::YieldOp::create(b, body(index, SmallVector<Value>(carried)));
                                  });
}

/// A pointer so many bytes further; `bytes` is an i32 or i64.
inline Value addBytes(CodeBuilder &b, Value pointer, Value bytes) {
  return mlir::LLVM::GEPOp::create(b, pointer.getType(), b.getI8Type(), pointer, ArrayRef<mlir::LLVM::GEPArg>{bytes});
}

/// The elements `from`, from + step … of two vectors that lie one behind the other.
inline Value shuffleStrided(CodeBuilder &b, Value first, Value second, int64_t from, int64_t count, int64_t step = 1) {
  SmallVector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i)
    indices.push_back(from + i * step);
  return mlir::vector::ShuffleOp::create(b, first, second, indices);
}

/// An instruction of a target by LLVM's name.
inline Value intrinsic(CodeBuilder &b, StringRef name, Type type, ValueRange operands) {
  return mlir::LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), operands).getResult(0);
}

/// A line of assembly that neither LLVM nor anybody else moves, leaves out or looks into.
inline ResultRange assembly(CodeBuilder &b, StringRef text, StringRef constraints, TypeRange types,
                            ValueRange operands) {
  return mlir::LLVM::InlineAsmOp::create(b, types, operands, b.getStringAttr(text), b.getStringAttr(constraints),
                                         /*has_side_effects=*/true, /*is_align_stack=*/false,
                                         mlir::LLVM::TailCallKind::None, mlir::LLVM::AsmDialectAttr(),
                                         mlir::ArrayAttr())
      ->getResults();
}

} // namespace altgrad

#endif // ALTGRAD_DIALECT_BUILDERS_INSTRUCTIONS_H
