// orthogonalize ==> grams and products; matrix, entry ==> encode, collect, load, decode.
#include "passes/Passes.h"

#include "dialect/Coefficients.h"
#include "dialect/Variance.h"
#include "dialect/builders/Codes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "passes/Forms.h"
#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDMATRICESPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// The Gram form takes fewer operations from this ratio of the sides on, also where no product is halved: for five
// steps 8 n^2 m + 28 n^3, in f16 12 n^2 m + 22 n^3, and the other form 20 n^2 m + 10 n^3.
static constexpr double elongated = 1.5, elongatedInF16 = 2;
static constexpr uint64_t restart = 3, restartInF16 = 2;
static constexpr double mostGrowthInF16 = 1024;
static constexpr double leastRow = 1e-7;

namespace {
// Writes one iteration before its operation.
class Iteration {
public:
  explicit Iteration(OrthogonalizeOp op)
      : op(op), builder(op.getLoc(), op), format(op.getFormat()), list(TensorsType::get(op.getContext(), format)),
        set(*readCoefficients(op.getCoefficients())) {}

  Value write() {
    Value x = MatrixOp::create(builder, list, normalized());
    Value y = improve(x);
    if (hasGramForm())
      y = SelectByAspectOp::create(builder, improveByGram(x), y,
                                   builder.getF64FloatAttr(format.isF32() ? elongated : elongatedInF16));
    return EntryOp::create(builder, y);
  }

private:
  bool isBf16() { return format.getKnownName() == "bf16"; }
  Value rounded(Value scalar) { return isBf16() ? RoundOp::create(builder, scalar, format).getResult() : scalar; }
  Value f32(double number) { return arith::ConstantOp::create(builder, builder.getF32FloatAttr(float(number))); }
  Value normalized();
  Value getLength(Value norm);
  bool hasGramForm();
  Value improve(Value x);
  Value improveByGram(Value x);
  Value gram(Value x) { return GramOp::create(builder, getSquareType(list), x, op.getUnits(), op.getAlone()); }
  Value multiply(Value left, Value right, double factor = 1, Value added = {}, double share = 1, double shift = 0) {
    return ProductOp::create(builder, right.getType(), left, right, builder.getF64FloatAttr(factor), added,
                             builder.getF64FloatAttr(share), builder.getF64FloatAttr(shift));
  }

  OrthogonalizeOp op;
  ImplicitLocOpBuilder builder;
  FormatAttr format;
  Type list;
  CoefficientSet set;
};
} // namespace

// In bf16 each operation is rounded, as torch does it in a tensor of no dimension.
Value Iteration::getLength(Value norm) {
  Value eps = arith::TruncFOp::create(builder, builder.getF32Type(), op.getEps());
  if (set.margin != 1)
    norm = rounded(arith::MulFOp::create(builder, norm, f32(set.margin)));
  if (op.getLength() == Length::Added)
    return rounded(arith::AddFOp::create(builder, norm, eps));
  return arith::MaximumFOp::create(builder, norm, rounded(eps));
}

// The norm is that of the rounded elements, and these are what is divided. In f16, where numbers below 6e-8 and above
// 65504 would be lost, neither is rounded.
Value Iteration::normalized() {
  Value number = op.getElement();
  if (op.getEqualRows()) {
    Value row = ReduceOp::create(builder, Reduction::SumSq, number, Scope::Unit);
    Value length = arith::MaximumFOp::create(builder, math::SqrtOp::create(builder, row), f32(leastRow));
    number = arith::DivFOp::create(builder, number, length);
  }
  Value element = number;
  if (isBf16() || format.isF32())
    element = EntryOp::create(builder, MatrixOp::create(builder, list, number));
  Value sum = ReduceOp::create(builder, Reduction::SumSq, element, op.getUnits() ? Scope::Unit : Scope::Tensor);
  Value norm = rounded(math::SqrtOp::create(builder, sum));
  return arith::DivFOp::create(builder, element, getLength(norm));
}

Value Iteration::improve(Value x) {
  for (uint64_t step = 0; step < op.getSteps(); ++step) {
    auto [a, b, c] = set.at(step);
    Value square = gram(x);
    if (c == 0)
      x = multiply(square, x, b, x, a);
    else
      x = multiply(multiply(square, square, c, square, b), x, 1, x, a);
  }
  return x;
}

// Without a fifth power a step has two products, and fewer operations in no other form. In bf16 the squares of singular
// values are lost, and in f16 where an error of 2^-11 grows to that of a whole value (tools/gram_accuracy.py).
bool Iteration::hasGramForm() {
  bool quintic = true;
  for (uint64_t step = 0; step < op.getSteps(); ++step)
    quintic &= set.at(step)[2] != 0;
  if (isBf16() || op.getSteps() < 2 || !quintic)
    return false;
  return format.isF32() || set.getErrorGrowth(op.getSteps()) < mostGrowthInF16;
}

// After some steps X and its gram are computed again: R has drifted from X Xᵀ.
Value Iteration::improveByGram(Value x) {
  const uint64_t most = format.isF32() ? restart : restartInF16;
  for (uint64_t step = 0; step < op.getSteps();) {
    Value r = gram(x), q;
    for (uint64_t end = std::min<uint64_t>(step + most, op.getSteps()); step < end; ++step) {
      auto [a, b, c] = set.at(step);
      Value w = multiply(r, r, c, r, b, a);
      q = q ? multiply(q, w) : w;
      if (step + 1 < end)
        r = multiply(w, multiply(r, w));
    }
    x = multiply(q, x);
  }
  return x;
}

static Value expand(CodeBuilder &, OrthogonalizeOp op) { return Iteration(op).write(); }

//===-- Words of a rule ------------------------------------------------------===//

static Value getLengthOver(CodeBuilder &b, Value element, Scope scope) {
  return math::SqrtOp::create(b, ReduceOp::create(b, Reduction::SumSq, element, scope));
}

// Of x times or over a number of each unit, from lengths of x's units; null where these are not at hand.
static Value getLengthByUnits(CodeBuilder &b, Value element, const Variances &variances) {
  Operation *op = element.getDefiningOp();
  if (!isa_and_present<arith::DivFOp, arith::MulFOp>(op) || variances.getScope(op->getOperand(1)) != Scope::Unit)
    return {};
  Value x = op->getOperand(0), of = op->getOperand(1);
  if (llvm::none_of(x.getUsers(), [](Operation *user) { return isa<RowMeanSquareOp>(user); }))
    return {};
  Value length = getLengthOver(b, x, Scope::Unit);
  length = isa<arith::DivFOp>(op) ? b.divF(length, of) : b.mulF(length, of);
  return math::SqrtOp::create(
      b, AcrossOp::create(b, b.mulF(length, length), /*units=*/true, /*most=*/false, IntegerAttr()));
}

// While row_mean_square still says whose units' squares are added.
static void expandMatchNorms(StepOp step) {
  Variances variances(step);
  for (auto op : llvm::make_early_inc_range(step.getBody().getOps<MatchNormOp>())) {
    CodeBuilder b(op.getLoc(), op);
    Value aim = getLengthOver(b, op.getLike(), Scope::Tensor);
    Value own = getLengthByUnits(b, op.getElement(), variances);
    if (!own)
      own = getLengthOver(b, op.getElement(), Scope::Tensor);
    op.replaceAllUsesWith(b.mulF(op.getElement(), b.divF(aim, b.addF(own, b.f32(1e-10f)))));
    op.erase();
  }
}

static Value dim(CodeBuilder &b, Type type, Dimension which) {
  return arith::SIToFPOp::create(b, type, DimOp::create(b, b.getI64Type(), which));
}

static Value expand(CodeBuilder &b, RowMeanSquareOp op) {
  Value sum = ReduceOp::create(b, Reduction::SumSq, op.getElement(), Scope::Unit);
  return b.divF(sum, dim(b, b.getF32Type(), Dimension::Unit));
}

static Value expand(CodeBuilder &b, ScaleByShapeOp op) {
  Value rows = dim(b, b.getF64Type(), Dimension::Rows), columns = dim(b, b.getF64Type(), Dimension::Columns);
  if (op.getTransposed())
    std::swap(rows, columns);
  Value square;
  if (op.getBy() == ShapeScale::MatchRms)
    square = b.mulF(b.f64(0.04), arith::MaximumFOp::create(b, rows, columns));
  else if (op.getBy() == ShapeScale::Spectral)
    square = arith::MaximumFOp::create(b, rows, columns);
  else
    square = b.divF(rows, columns);
  if (op.getBy() == ShapeScale::Original)
    square = arith::MaximumFOp::create(b, b.f64(1), square);
  return math::SqrtOp::create(b, square);
}

static Value expand(CodeBuilder &b, ApplyStepOp op) {
  auto rounded = [&](Value scalar) { return arith::TruncFOp::create(b, b.getF32Type(), scalar); };
  Value decayed = b.mulF(op.getWeight(), rounded(b.subF(b.f64(1), op.getDecay())));
  if (op.getCautious()) {
    Value isAlike = b.compareF(arith::CmpFPredicate::OGE, b.mulF(op.getDirection(), op.getWeight()), b.f32(0));
    decayed = b.select(isAlike, decayed, op.getWeight());
  }
  return b.fma(rounded(b.negF(op.getRate())), op.getDirection(), decayed);
}

// Whether an element is not finite that is multiplied before a product gives this matrix; `known` of each matrix.
static Value wereInfinite(CodeBuilder &b, Value product, DenseMap<Operation *, Value> &known) {
  BackwardSliceOptions products;
  products.filter = [](Operation *op) {
    return isa<MatrixOp, GramOp, ProductOp, MatmulOp, FactorizeOp, SelectByAspectOp>(op);
  };
  products.inclusive = true;
  SetVector<Operation *> before;
  (void)getBackwardSlice(product, &before, products);
  Value some = b.constBool(false);
  for (Operation *op : before)
    if (auto matrix = dyn_cast<MatrixOp>(op); matrix && !matrix.getMatrix().getType().isSquare()) {
      Value &count = known[op];
      if (!count)
        count = ReduceOp::create(b, Reduction::Count, b.bitXor(b.isFinite(matrix.getElement()), b.constBool()),
                                 Scope::Tensor);
      some = b.bitOr(some, b.compareF(arith::CmpFPredicate::OGT, count, b.f32(0)));
    }
  return some;
}

static Value expand(CodeBuilder &b, ProductsFiniteOp op) {
  BackwardSliceOptions arithmetic;
  arithmetic.omitBlockArguments = arithmetic.inclusive = true;
  SetVector<Operation *> before;
  (void)getBackwardSlice(op.getElement(), &before, arithmetic);
  Value sound = b.constBool();
  DenseMap<Operation *, Value> known;
  bool isProduct = false;
  for (Operation *each : before)
    // What is wrong in a square is so in the product with it.
    if (auto entry = dyn_cast<EntryOp>(each);
        entry && !entry.getMatrix().getDefiningOp<MatrixOp>() && !entry.getMatrix().getType().isSquare()) {
      sound = b.bitAnd(sound, b.bitOr(b.isFinite(entry), wereInfinite(b, entry.getMatrix(), known)));
      isProduct = true;
    }
  if (isProduct)
    return sound;
  // With these options nothing is multiplied: true, of what differs between elements.
  Value size = math::AbsFOp::create(b, op.getElement());
  return b.compareF(arith::CmpFPredicate::UGE, size, b.f32(0));
}

static Value encodeElement(CodeBuilder &b, TensorsType type, Value element) {
  return CollectOp::create(b, type, encodeNumber(b, element, type.getFormat()), /*factor=*/Value());
}

static Value expand(CodeBuilder &b, MatrixOp op) { return encodeElement(b, op.getMatrix().getType(), op.getElement()); }

static Value expand(CodeBuilder &b, EntryOp op) {
  FormatAttr format = op.getMatrix().getType().getFormat();
  return decodeNumber(b, LoadOp::create(b, format.getCodeType(), op.getMatrix()), format);
}

// A product lies in the workspace. A commit of one writes its entries.
static void expandCommit(CommitOp commit) {
  CodeBuilder builder(commit.getLoc(), commit);
  for (OpOperand &operand : commit->getOpOperands())
    if (isa_and_nonnull<ProductOp, MatmulOp, FactorizeOp, SelectByAspectOp>(operand.get().getDefiningOp())) {
      Value entry = EntryOp::create(builder, operand.get());
      operand.set(encodeElement(builder, cast<TensorsType>(operand.get().getType()), entry));
    }
}

// The matrix of a product's entries is the product: f32 is rounded to itself.
static void dropCopies(Block &body) {
  for (auto matrix : llvm::make_early_inc_range(body.getOps<MatrixOp>()))
    if (auto entry = matrix.getElement().getDefiningOp<EntryOp>();
        entry && entry.getMatrix().getType() == matrix.getMatrix().getType() &&
        isa_and_nonnull<MatmulOp, FactorizeOp>(entry.getMatrix().getDefiningOp()) &&
        matrix.getMatrix().getType().getFormat().isF32()) {
      matrix.replaceAllUsesWith(entry.getMatrix());
      matrix.erase();
    }
}

template <typename... Ops> static void expandAll(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    CodeBuilder builder(op.getLoc(), &op);
    llvm::TypeSwitch<Operation *>(&op).Case<Ops...>([&](auto expanded) {
      expanded.replaceAllUsesWith(expand(builder, expanded));
      expanded.erase();
    });
  }
}

namespace {
struct ExpandMatrices : altgrad::impl::ExpandMatricesPassBase<ExpandMatrices> {
  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::GradientsExpanded, Form::Element)))
      return signalPassFailure();
    Block &body = getOperation().getBody().front();
    dropCopies(body);
    expandAll<OrthogonalizeOp>(body);
    expandMatchNorms(getOperation());
    expandAll<RowMeanSquareOp, ScaleByShapeOp, ApplyStepOp, ProductsFiniteOp>(body);
    expandCommit(getOperation().getCommit());
    expandAll<MatrixOp, EntryOp>(body);
  }
};
} // namespace
