// In which form a step is, and whether it is one that a pass reads.
#include "passes/Forms.h"

#include "dialect/Arithmetic.h"
#include "passes/SweepQueries.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct FormName {
  StringLiteral is;   // what the step is then
  StringLiteral pass; // that makes it so
};

struct Forms {
  Form first, last;
};
} // namespace

static constexpr FormName names[] = {
    {"as written", ""},
    {"inlined", "altgrad-inline-rules"},
    {"expanded", "altgrad-expand-gradients"},
    {"expanded", "altgrad-expand-matrices"},
    {"in element form", "altgrad-expand-formats"},
    {"split into sweeps", "altgrad-split-sweeps"},
    {"planned in phases", "altgrad-plan-phases"},
    {"cut into stages", "altgrad-cut-stages"},
    {"vectorized", "altgrad-vectorize"},
    {"given fast paths", "altgrad-fast-path"},
    {"fitted to a GPU", "altgrad-fit-resources"},
};

static const FormName &getFormName(Form form) { return names[int(form)]; }

// A sweep without blocks needs no stages, and one without quotients no fast path.
static Forms getForms(SweepOp sweep) {
  if (sweep.getWide().size() > 1)
    return {Form::FastPath, Form::Resources};
  if (!sweep.getWide().empty())
    return {Form::Vectorized, Form::Resources};
  if (!getStages(sweep.getBody()).empty())
    return {Form::Stages, Form::Stages};
  return sweep->getParentOfType<PhaseOp>() ? Forms{Form::Phases, Form::Stages} : Forms{Form::Sweeps, Form::Sweeps};
}

// Products are the runtime's and take nothing of a kernel.
static Forms getForms(PhaseOp phase) {
  if (phase.getKernelResources())
    return {Form::Resources, Form::Resources};
  return {Form::Phases, phase.getPhaseKind() == PhaseKind::Matrix ? Form::Resources : Form::FastPath};
}

static Forms getForms(Operation *op) {
  constexpr Forms any{Form::Written, Form::Resources};
  if (!isa_and_nonnull<AltgradDialect>(op->getDialect()) || (!op->getNumOperands() && !op->getNumRegions()))
    return any;
  return llvm::TypeSwitch<Operation *, Forms>(op)
      .Case([](SweepOp sweep) { return getForms(sweep); })
      .Case([](PhaseOp phase) { return getForms(phase); })
      .Case<PhaseWork, CommitOp, RoundOp, AcrossOp, AllReduceOp, BinadeOp, FunctionOp, SigmoidOp, SoftplusOp, UniformOp,
            ScaledQuotientOp, EncodeOp>([&](auto) { return any; })
      .Case([](UpdateOp) {
        return Forms{Form::Written, Form::Written};
      })
      .Case<UnscaleOp, ClipOp, CoefficientOp, NormOp, ScaleOp, LerpOp, UpdateLossScaleOp>([](auto) {
        return Forms{Form::Written, Form::Inlined};
      })
      .Case<OrthogonalizeOp, MatchNormOp, RowMeanSquareOp, ScaleByShapeOp, ApplyStepOp, ProductsFiniteOp, MatrixOp,
            EntryOp>([](auto) {
        return Forms{Form::Written, Form::GradientsExpanded};
      })
      .Case<DequantizeOp, RecodeOp, QuantizeOp, JoinOp, SplitOp, ElementOp>([](auto) {
        return Forms{Form::Written, Form::MatricesExpanded};
      })
      .Default(Forms{Form::Written, Form::Element});
}

static LogicalResult tooEarly(Operation *op, StringRef pass, Form wanted) {
  return op->emitOpError() << "stands in a step that is not " << getFormName(wanted).is << " yet; run "
                           << getFormName(wanted).pass << " before " << pass;
}

LogicalResult altgrad::checkForm(StepOp step, StringRef pass, Form least, Form most, bool inPhases) {
  auto check = [&](Operation *op) -> LogicalResult {
    auto [first, last] = getForms(op);
    if (last < least)
      return tooEarly(op, pass, Form(int(last) + 1));
    if (first <= most)
      return success();
    bool isTwice = getFormName(first).pass == pass;
    return op->emitOpError() << "stands in a step that is " << getFormName(first).is << " already; run " << pass
                             << (isTwice ? " once" : " before ") << (isTwice ? "" : getFormName(first).pass);
  };
  for (Operation &op : step.getBody().front()) {
    if (failed(check(&op)))
      return failure();
    if (auto phase = dyn_cast<PhaseOp>(op)) {
      for (SweepOp sweep : phase.getBody().getOps<SweepOp>())
        if (failed(check(sweep)))
          return failure();
    } else if (inPhases && !isa<SpillOp, CommitOp>(op)) {
      return tooEarly(&op, pass, Form::Phases);
    }
  }
  return success();
}

LogicalResult altgrad::checkLowered(Operation *top, StringRef pass, bool numerics) {
  WalkResult walked = top->walk<WalkOrder::PreOrder>([&](Operation *op) {
    StringRef makes = isa<StepOp>(op) ? "altgrad-lower-to-host or altgrad-lower-to-gpu" : "altgrad-lower-numerics";
    const AllowedOperation *row = findAllowedOperation(*op);
    bool isNumeric = isa_and_nonnull<AltgradDialect>(op->getDialect()) ||
                     (row && row->facts.functions && !isa<math::CopySignOp>(op));
    if (!isa<StepOp>(op) && !(numerics && isNumeric))
      return WalkResult::advance();
    return WalkResult(op->emitOpError() << "is not lowered yet; run " << makes << " before " << pass);
  });
  return failure(walked.wasInterrupted());
}
