// The list of operations that rules and steps may hold.
#ifndef ALTGRAD_DIALECT_ARITHMETIC_H
#define ALTGRAD_DIALECT_ARITHMETIC_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace altgrad {

/// What an operation computes and costs.
struct OperationFacts {
  unsigned flops = 0;                                     // for one element
  unsigned functions = 0;                                 // as how many it counts (body_c12), some 20 operations each
  bool isF64 = false;                                     // gives nothing but f64
  bool isF32 = false;                                     // gives nothing but f32
  double (*real)(double a, double b, double c) = nullptr; // of its operands, before it is rounded
  uint64_t (*integer)(uint64_t a, uint64_t b) = nullptr;
};

/// One row: what `altgrad-opt --list-ops` and templates/Language.md say of an operation.
struct AllowedOperation {
  llvm::StringLiteral name; // "arith.addf"; rules and steps may leave out "arith."
  llvm::StringLiteral types;
  llvm::StringLiteral meaning;
  llvm::StringLiteral example; // of a rule with %w, %g, %m: f32, %lr: f64, %t: i64, %flag: i1
  OperationFacts facts = {};
};

/// Every operation that a rule may hold besides `altgrad.yield`.
llvm::ArrayRef<AllowedOperation> allowedOperations();

/// The row of `name` ("arith.addf"); null: it is none of them.
const AllowedOperation *findAllowedOperation(llvm::StringRef name);
inline bool isAllowedOperation(llvm::StringRef name) { return findAllowedOperation(name); }
/// The name of its row: of `altgrad.function`, that of the function.
llvm::StringRef getRowName(mlir::Operation &op);
inline const AllowedOperation *findAllowedOperation(mlir::Operation &op) {
  return findAllowedOperation(getRowName(op));
}
/// Whether `altgrad.function` stands for this operation of `math` from `altgrad-keep-functions` on.
bool isKeptFunction(llvm::StringRef name);

/// How to write what the operation `name` would compute, as the end of a sentence:
/// "; write ...", or where the list is.
std::string describeReplacement(llvm::StringRef name);

/// A line for each of them: name, types, meaning and example, separated by tabs.
std::string listOperations();

} // namespace altgrad

#endif // ALTGRAD_DIALECT_ARITHMETIC_H
