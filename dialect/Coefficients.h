// The polynomials of Newton-Schulz iterations: a set has a row (a, b, c) for each step.
#ifndef ALTGRAD_DIALECT_COEFFICIENTS_H
#define ALTGRAD_DIALECT_COEFFICIENTS_H

#include "mlir/IR/OpImplementation.h"

#include <array>
#include <optional>

namespace altgrad {

/// x <- a x + b x^3 + c x^5, of each singular value.
using Polynomial = std::array<double, 3>;

/// What a set is used with: as many steps as it has rows, at most as many, or any number, where
/// the last row is repeated.
enum class StepCount { All, Some, Any };

struct CoefficientSet {
  llvm::StringRef name, source;
  StepCount steps;
  double safety; // each row is divided by it, its third and its fifth power
  double margin; // of the norm by which a matrix is divided
  llvm::SmallVector<Polynomial> rows;

  bool allows(int64_t count) const;
  /// "5 steps", "1 to 8 steps", ...
  std::string allowed() const;
  /// Of a step, from 0.
  Polynomial at(int64_t step) const;
  /// How large the relative error of a step's operand becomes in a singular value at the end, at most.
  double getErrorGrowth(int64_t count) const;
};

/// A set that has a name, or rows that are written; null: there is no such set.
std::optional<CoefficientSet> readCoefficients(mlir::Attribute attribute);

/// A line for each set that has a name: its steps, margin, rows and source.
std::string listCoefficients();
/// "jordan, you, ...".
std::string coefficientNames();

mlir::ParseResult parseCoefficients(mlir::OpAsmParser &parser, mlir::Attribute &coefficients);
void printCoefficients(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute coefficients);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_COEFFICIENTS_H
