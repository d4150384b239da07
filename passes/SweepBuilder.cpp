// Sweeps from parts.
#include "passes/SweepBuilder.h"

using namespace mlir;
using namespace altgrad;

SweepOp altgrad::createSweep(OpBuilder &builder, Location loc, const SweepParts &parts, std::unique_ptr<Block> body) {
  auto sweep = SweepOp::create(builder, loc, parts.results, parts.name, parts.condition, parts.loads, parts.stores,
                               builder.getArrayAttr(parts.reductions), builder.getArrayAttr(parts.scopes),
                               builder.getI64IntegerAttr(1), builder.getDenseBoolArrayAttr(parts.renewed),
                               WalkAttr::get(builder.getContext(), parts.walk),
                               parts.combine ? ReductionAttr::get(builder.getContext(), *parts.combine) : nullptr,
                               /*wideRegionsCount=*/0);
  sweep.getBody().push_back(body.release());
  return sweep;
}

SweepOp altgrad::addWideBody(SweepOp sweep, int64_t width, std::unique_ptr<Region> body) {
  OpBuilder builder(sweep);
  unsigned count = sweep.getWide().size();
  auto with = SweepOp::create(builder, sweep.getLoc(), sweep.getResultTypes(), sweep.getNameAttr(),
                              sweep.getCondition(), sweep.getLoads(), sweep.getStores(), sweep.getReductions(),
                              sweep.getScopes(), builder.getI64IntegerAttr(width), sweep.getRenewedAttr(),
                              sweep.getWalkAttr(), sweep.getCombineAttr(), count + 1);
  with.getBody().takeBody(sweep.getBody());
  for (unsigned i = 0; i < count; ++i)
    with.getWide()[i].takeBody(sweep.getWide()[i]);
  with.getWide()[count].takeBody(*body);
  sweep.replaceAllUsesWith(with.getReduced());
  sweep.erase();
  return with;
}
