// Sweeps are made and replaced here.
#ifndef ALTGRAD_PASSES_SWEEPBUILDER_H
#define ALTGRAD_PASSES_SWEEPBUILDER_H

#include "dialect/Dialect.h"
#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

/// A sweep but for its bodies.
struct SweepParts {
  mlir::StringAttr name = {};
  Value condition = {};
  SmallVector<Value> loads = {}, stores = {};
  SmallVector<bool> renewed = {}; // of the loads: what an earlier sweep has stored
  SmallVector<mlir::Attribute> reductions = {}, scopes = {};
  SmallVector<Type> results = {}; // of the reductions
  Walk walk = Walk::Chunks;
  std::optional<Reduction> combine = {};
};

/// A sweep with a body for one element.
SweepOp createSweep(mlir::OpBuilder &builder, Location loc, const SweepParts &parts, std::unique_ptr<Block> body);
/// Puts a sweep in place of another that has a wide body more, of `width` elements. Others' bodies are its own now.
SweepOp addWideBody(SweepOp sweep, int64_t width, std::unique_ptr<Region> body);

} // namespace altgrad

#endif // ALTGRAD_PASSES_SWEEPBUILDER_H
