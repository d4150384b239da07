// Where the matrices of a step lie while it is cut into sweeps.
#ifndef ALTGRAD_PASSES_MATRIXPLACES_H
#define ALTGRAD_PASSES_MATRIXPLACES_H

#include "dialect/RowSets.h"
#include "mlir/IR/Builders.h"

namespace altgrad {

/// Gives each matrix a list in the workspace and writes products as `multiply`. A product takes
/// the place of a matrix of its set that nobody reads any more. The two forms of `either` leave their results in one
/// place, and are done for tensors of different shapes.
class MatrixPlaces {
public:
  /// Products are written where the builder stands, lists at the start of the step.
  MatrixPlaces(StepOp step, const RowSets &sets, mlir::OpBuilder &builder) : step(step), sets(sets), builder(builder) {}

  /// The list of a matrix; before, the products of which it is one.
  mlir::Value of(mlir::Value matrix);

private:
  mlir::Value make(mlir::Value matrix);
  mlir::Value take(mlir::Value matrix);
  void multiply(mlir::Value result);
  void choose(SelectByAspectOp either);
  void writeShared(mlir::Value form, SelectByAspectOp either);
  void release(mlir::Operation *reader);

  StepOp step;
  const RowSets &sets;
  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, mlir::Value> places;
  llvm::DenseMap<mlir::Value, mlir::Value> aims; // a place that a product has to take
  llvm::DenseSet<mlir::Operation *> written;
  std::optional<double> least, below; // the shapes that products are for now
  llvm::SmallVector<std::pair<std::optional<unsigned>, mlir::Value>> unread;
};

} // namespace altgrad

#endif // ALTGRAD_PASSES_MATRIXPLACES_H
