// unscale, norm, scale and what clips ==> reductions, and factors of lists; lerp, update_loss_scale ==> arithmetic.
#include "dialect/builders/Codes.h"
#include "passes/Forms.h"
#include "passes/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDGRADIENTSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

static Value collect(CodeBuilder &b, Value element, Value factor) {
  return CollectOp::create(b, RealsType::get(b.getContext()), element, factor);
}

static SmallVector<Value> expand(CodeBuilder &b, UnscaleOp unscale) {
  Value code = LoadOp::create(b, unscale.getTensors());
  Value number = decodeNumber(b, code, unscale.getTensors().getType().getFormat());
  Value finite;
  if (!unscale.getFinite().use_empty()) // it costs a sweep
    finite = ReduceOp::create(b, Reduction::And, b.isFinite(number), Scope::Step);
  return {collect(b, number, unscale.getFactor()), finite};
}

static Value reduceList(CodeBuilder &b, NormKind kind, Value list, Scope scope) {
  Value element = ElementOp::create(b, list);
  Reduction how = kind == NormKind::L2 ? Reduction::SumSq : kind == NormKind::L1 ? Reduction::Add : Reduction::AbsMax;
  return ReduceOp::create(b, how, kind == NormKind::L1 ? b.absF(element) : element, scope);
}

// The norm of all lists: their shares joined in order.
static Value getNorm(CodeBuilder &b, NormKind kind, ValueRange lists, Scope scope) {
  // The largest of nothing is -inf.
  Value total = kind == NormKind::LInf ? b.f32(0) : Value();
  for (Value list : lists) {
    Value part = reduceList(b, kind, list, scope);
    total = kind == NormKind::LInf ? b.maximumF(total, part) : total ? b.addF(total, part) : part;
  }
  return kind == NormKind::L2 ? math::SqrtOp::create(b, total) : total;
}

// The list with one factor more: its own joins this one.
static Value scaled(CodeBuilder &b, Value list, Value factor) {
  auto made = list.getDefiningOp<CollectOp>();
  if (!made)
    return collect(b, ElementOp::create(b, list), factor);
  return collect(b, made.getElement(), made.getFactor() ? b.mulF(made.getFactor(), factor) : factor);
}

static Value getCoefficient(CodeBuilder &b, Value norm, Value most, std::optional<FormatAttr> torch) {
  auto rounded = [&](Value value) -> Value {
    return !torch || torch->isF32() ? value : RoundOp::create(b, value, *torch);
  };
  Value more = rounded(b.addF(norm, b.f32(1e-6f)));
  Value ratio = torch ? rounded(b.mulF(rounded(b.divF(b.f32(1), more)), most)) : b.divF(most, more);
  return arith::MinimumFOp::create(b, ratio, b.f32(1));
}

static Value expand(CodeBuilder &b, NormOp op) { return getNorm(b, op.getKind(), op.getValues(), op.getScope()); }

static Value expand(CodeBuilder &b, ScaleOp op) { return scaled(b, op.getValues(), op.getFactor()); }

static Value expand(CodeBuilder &b, CoefficientOp op) {
  return getCoefficient(b, op.getNorm(), op.getMaxNorm(), op.getTorch());
}

static Value expand(CodeBuilder &b, LerpOp op) {
  Value start = op.getStart(), end = op.getEnd(), weight = op.getWeight();
  auto number = [&](double one) -> Value {
    return arith::ConstantOp::create(b, b.getFloatAttr(weight.getType(), one));
  };
  Value near = b.compareF(arith::CmpFPredicate::OLT, b.absF(weight), number(0.5));
  Value step = b.select(near, weight, b.subF(weight, number(1)));
  return b.fma(step, b.subF(end, start), b.select(near, start, end));
}

// What a step leaves that has found something, and what another one does: the scale, its tracker, what is left of the
// hysteresis. Products are of f64; where one is compared with a limit a NaN stays.
static SmallVector<Value> expand(CodeBuilder &b, UpdateLossScaleOp op) {
  bool isBoostr = op.getVariant() == Scaler::Boostr;
  Value scale = op.getScale(), none = b.integer(b.getI64Type(), 0), one = b.integer(b.getI64Type(), 1);
  auto times = [&](Value factor, arith::CmpFPredicate beyond, Value limit) -> Value {
    Value wide = b.mulF(arith::ExtFOp::create(b, b.getF64Type(), scale), factor);
    return arith::TruncFOp::create(b, b.getF32Type(), b.select(b.compareF(beyond, wide, limit), limit, wide));
  };
  Value left = b.sub(op.getLeft(), one);
  Value lower = times(op.getBackoff(), arith::CmpFPredicate::OLT, op.getLeast());
  Value found[] = {b.select(b.greater(left, none), scale, lower), none, left};
  Value counted = b.add(op.getTracker(), one);
  Value full = isBoostr ? b.greaterEqual(counted, op.getInterval()) : b.equal(counted, op.getInterval());
  Value higher = times(op.getGrowth(), arith::CmpFPredicate::OGT, op.getMost());
  Value grown = isBoostr ? higher : b.select(b.isFinite(higher), higher, scale);
  Value clean[] = {b.select(full, grown, scale), b.select(full, none, counted),
                   b.select(full, op.getHysteresis(), op.getLeft())};
  SmallVector<Value> results;
  for (auto [bad, good] : llvm::zip(found, clean))
    results.push_back(b.select(op.getFound(), bad, good));
  return results;
}

static SmallVector<Value> expand(CodeBuilder &b, ClipOp clip) {
  Value norm = getNorm(b, NormKind::L2, clip.getValues(), Scope::Step);
  Value factor = getCoefficient(b, norm, clip.getMaxNorm(), std::nullopt);
  auto results = llvm::map_to_vector(clip.getValues(), [&](Value list) { return scaled(b, list, factor); });
  results.push_back(norm);
  return results;
}

namespace {
struct ExpandGradients : altgrad::impl::ExpandGradientsPassBase<ExpandGradients> {
  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::Inlined, Form::Element)))
      return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(getOperation().getBody().front())) {
      CodeBuilder b(op.getLoc(), &op);
      llvm::TypeSwitch<Operation *>(&op)
          .Case<UnscaleOp, ClipOp, CoefficientOp, NormOp, ScaleOp, LerpOp, UpdateLossScaleOp>([&](auto expanded) {
            op.replaceAllUsesWith(ValueRange(expand(b, expanded)));
            op.erase();
          });
    }
  }
};
} // namespace
