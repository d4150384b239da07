// Divisions and square roots of a wide body ==> products, in a fast-path body.
#include "dialect/Codecs.h"
#include "dialect/builders/Quotients.h"
#include "mlir/IR/Matchers.h"
#include "passes/Forms.h"
#include "passes/Passes.h"
#include "passes/SweepBuilder.h"
#include "passes/SweepQueries.h"

namespace altgrad {
#define GEN_PASS_DEF_FASTPATHPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

//===-- Magnitudes ----------------------------------------------------------===//

// How large and how small the numbers of a body may be where nothing is NaN: by roots, quotients by scalars, sums and
// maxima; nothing else.
namespace {
// 0, or of a magnitude from 2^low to 2^high.
struct Magnitude {
  bool negative = true; // may be; -0 always may
  int low = -149, high = 128;
};

class Magnitudes {
public:
  // Of an f32 vector of a sweep's wide body. What it presumes of scalars, that
  // they are from 0 to 2^divisorLimit, is added to `scalars`.
  Magnitude of(Value value, SetVector<Value> &scalars) const;

  // It is tested: 0 or at least 2^leastTested.
  void setTested(Value value) { tested.insert(value); }
  // It is the quotient of `n` and a scalar from 2^-divisorLimit to
  // 2^divisorLimit.
  void setUniformQuotient(Value value, Value n) { numerators[value] = n; }

private:
  Magnitude compute(Value value, SetVector<Value> &scalars, unsigned depth) const;

  DenseSet<Value> tested;
  DenseMap<Value, Value> numerators;
};
} // namespace

// A chain of sums that share operands would otherwise take exponential time.
static constexpr unsigned maxChain = 8;

// The scalar from outside the body that all elements of a vector are, or null.
static Value getUniform(Value vector) {
  auto broadcast = vector.getDefiningOp<vector::BroadcastOp>();
  if (!broadcast || broadcast->getParentRegion() == broadcast.getSource().getParentRegion())
    return {};
  return broadcast.getSource();
}

static Magnitude getMagnitude(const APFloat &value) {
  Magnitude all;
  all.negative = value.isNegative();
  if (value.isFiniteNonZero()) {
    all.low = ilogb(value);
    all.high = all.low + 1;
  }
  return all;
}

Magnitude Magnitudes::compute(Value value, SetVector<Value> &scalars, unsigned depth) const {
  auto ofOperand = [&](unsigned index) {
    return compute(value.getDefiningOp()->getOperand(index), scalars, depth + 1);
  };
  Magnitude result;
  Operation *op = value.getDefiningOp();
  DenseFPElementsAttr constant;
  if (!op || depth > maxChain) {
  } else if (matchPattern(value, m_Constant(&constant)) && constant.isSplat()) {
    result = getMagnitude(constant.getSplatValue<APFloat>());
  } else if (Value scalar = getUniform(value)) {
    scalars.insert(scalar);
    result.negative = false;
    result.high = divisorLimit;
  } else if (isa<math::SqrtOp>(op)) {
    Magnitude x = ofOperand(0);
    result = {false, (x.low - 1) / 2, (x.high + 1) / 2};
  } else if (isa<math::AbsFOp>(op)) {
    result = ofOperand(0);
    result.negative = false;
  } else if (auto n = numerators.find(value); n != numerators.end()) {
    result = ofOperand(0);
    result.low -= divisorLimit;
    result.high += divisorLimit;
  } else if (isa<arith::AddFOp, arith::MaximumFOp>(op)) {
    Magnitude x = ofOperand(0), y = ofOperand(1);
    if (!x.negative && !y.negative)
      result = {false, std::min(x.low, y.low), std::max(x.high, y.high) + isa<arith::AddFOp>(op)};
  }
  result.low = std::max(result.low, -149);
  result.high = std::min(result.high, 128);
  if (tested.contains(value))
    result.low = std::max(result.low, leastTested);
  return result;
}

Magnitude Magnitudes::of(Value value, SetVector<Value> &scalars) const { return compute(value, scalars, 0); }

//===-- The body ------------------------------------------------------------===//

namespace {
class FastPathBody {
public:
  FastPathBody(SweepOp sweep, const Target &target)
      : sweep(sweep), wide(sweep.getWide().front().front()), target(target), before(sweep.getLoc(), sweep),
        b(sweep.getLoc(), sweep.getContext()) {}

  /// Appends it to the sweep, where it has something to do.
  void build();

private:
  bool isReplaced(Operation &op);
  void findShared();
  Value lower(Operation &op);
  Value lowerUniform(arith::DivFOp op, Value scalar);
  Value lowerQuotient(arith::DivFOp op);
  int testedLow(Value value);
  void presume(Value condition) { presumed = presumed ? before.bitAnd(presumed, condition) : condition; }
  void poison();
  void check();
  void addToSum(Value value, float factor);

  Value f32(float value) { return before.f32(value); }
  VectorType fromElements(Type type) { return VectorType::get({int64_t(sweep.getWidth())}, type); }
  SweepOp sweep;
  Block &wide;
  const Target &target;
  CodeBuilder before; // scalars
  CodeBuilder b;      // the fast-path body
  IRMapping map;
  Magnitudes magnitudes;
  llvm::MapVector<Value, Value> reciprocals; // of scalars
  llvm::SetVector<Value> nonNegative;        // scalars presumed to be so
  DenseSet<Value> shared;                    // by a block's elements
  DenseSet<Value> made, checked;             // NaN in one of `checked` spoils the guard
  Value presumed, low, sum;
};
} // namespace

static bool isNumbers(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector && vector.getElementType().isF32();
}

// A scalar that is a constant is a splat by now.
static bool isDivision(Operation &op) { return isa<arith::DivFOp>(op) && isNumbers(op.getResult(0)); }

// What follows from shared values alone a thread computes once for all of its
// vectors, outside of any guard.
void FastPathBody::findShared() {
  for (auto [argument, stream] : llvm::zip(wide.getArguments(), sweep.getLoads()))
    if (getBlock(stream) > 1)
      shared.insert(argument);
  for (Operation &op : wide.without_terminator())
    if (isa<ReduceOp>(op) || op.hasTrait<OpTrait::ConstantLike>() ||
        (op.getNumOperands() && llvm::all_of(op.getOperands(), [&](Value value) {
           return shared.contains(value) || value.getParentBlock() != &wide;
         })))
      shared.insert_range(op.getResults());
}

// A root's magnitude is known: its quotients by scalars need no test.
bool FastPathBody::isReplaced(Operation &op) {
  if (op.getNumResults() && shared.contains(op.getResult(0)))
    return false;
  if (target.isPtx())
    return isDivision(op) || (isa<math::SqrtOp>(op) && isNumbers(op.getResult(0)));
  llvm::SetVector<Value> scalars;
  return target.cpu.fastQuotients && isDivision(op) && getUniform(op.getOperand(1)) &&
         magnitudes.of(op.getOperand(0), scalars).low >= leastExact && scalars.empty();
}

// The value's least exponent; it is tested unless that is at least leastExact.
// Twice the bits less one have no sign, and make 0 the largest number.
int FastPathBody::testedLow(Value value) {
  llvm::SetVector<Value> scalars;
  int known = magnitudes.of(value, scalars).low;
  if (known >= leastExact) {
    nonNegative.insert_range(scalars);
    return known;
  }
  magnitudes.setTested(value);
  Value raw = b.cast(fromElements(b.getI32Type()), map.lookupOrDefault(value));
  Value twice = b.add(raw, raw);
  Value less = b.sub(twice, b.integer(twice.getType(), 1));
  low = arith::MinUIOp::create(b, low, less);
  return leastTested;
}

// Infinity and NaN make the sum NaN.
void FastPathBody::addToSum(Value value, float factor) { sum = b.fma(value, b.f32(factor, value.getType()), sum); }

// RN(1/d), or NaN where the sequence does not hold.
Value FastPathBody::lowerUniform(arith::DivFOp op, Value scalar) {
  testedLow(op.getLhs());
  Value &z = reciprocals[scalar];
  if (!z) {
    auto limit = [&](arith::CmpFPredicate predicate, int exponent) {
      presume(arith::CmpFOp::create(before, predicate, scalar, f32(std::ldexp(1.0f, exponent))));
    };
    limit(arith::CmpFPredicate::OGE, -divisorLimit);
    limit(arith::CmpFPredicate::OLE, divisorLimit);
    z = before.divF(f32(1.0f), scalar);
  }
  magnitudes.setUniformQuotient(op.getResult(), op.getLhs());
  Value n = map.lookupOrDefault(op.getLhs());
  return uniformQuotient(b, n, map.lookupOrDefault(op.getRhs()), b.broadcast(n.getType(), z));
}

// The quotient is no subnormal number: the divisor is below 2^high.
Value FastPathBody::lowerQuotient(arith::DivFOp op) {
  int high = std::min(testedLow(op.getLhs()) - leastQuotient, -leastQuotient);
  llvm::SetVector<Value> scalars;
  Magnitude divisor = magnitudes.of(op.getRhs(), scalars);
  Value d = map.lookupOrDefault(op.getRhs());
  if (!divisor.negative)
    nonNegative.insert_range(scalars);
  if (divisor.negative || divisor.high > high)
    addToSum(d, std::ldexp(1.0f, 128 - high));
  return quotient(b, map.lookupOrDefault(op.getLhs()), d, divisor.negative);
}

Value FastPathBody::lower(Operation &op) {
  if (isa<math::SqrtOp>(op)) {
    testedLow(op.getOperand(0));
    return squareRoot(b, map.lookupOrDefault(op.getOperand(0)));
  }
  auto division = cast<arith::DivFOp>(op);
  if (Value scalar = getUniform(division.getRhs()))
    return lowerUniform(division, scalar);
  return lowerQuotient(division);
}

// What is presumed of scalars fails ==> NaN in what is made of one of them.
void FastPathBody::poison() {
  for (Value scalar : nonNegative) {
    presume(arith::CmpFOp::create(before, arith::CmpFPredicate::OGE, scalar, f32(0.0f)));
    presume(arith::CmpFOp::create(before, arith::CmpFPredicate::OLE, scalar, f32(std::ldexp(1.0f, divisorLimit))));
  }
  if (!presumed)
    return;
  Value wrong = f32(std::numeric_limits<float>::quiet_NaN());
  bool divides = !reciprocals.empty();
  Value victim = divides ? reciprocals.front().second : nonNegative.front();
  Value spoilt = before.select(presumed, victim, wrong);
  for (OpOperand &use : llvm::make_early_inc_range(victim.getUses()))
    if (use.getOwner()->getBlock() == b.getInsertionBlock())
      use.set(spoilt);
}

static bool passesNan(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::NegFOp, arith::MaximumFOp,
             arith::MinimumFOp, math::FmaOp, math::SqrtOp, math::AbsFOp, math::FloorOp, ScaledQuotientOp>(op);
}

// Backwards: `checked` ends with all values whose NaN cannot pass unnoticed.
// What is stored is among them: one product is less than making its NaN
// canonical.
void FastPathBody::check() {
  SmallVector<Value> values(wide.getArguments());
  for (Operation &op : wide.without_terminator())
    llvm::append_range(values, op.getResults());
  for (Value value : llvm::reverse(values)) {
    if (!isNumbers(value) || shared.contains(value))
      continue;
    bool stored = llvm::any_of(value.getUsers(), [](Operation *op) { return isa<EncodeOp, AdvanceCodeOp>(op); });
    bool noticed = llvm::any_of(value.getUsers(),
                                [&](Operation *op) { return passesNan(op) && checked.contains(op->getResult(0)); });
    if (!noticed && !stored && !made.contains(value))
      continue;
    checked.insert(value);
    if (!noticed)
      addToSum(map.lookup(value), 0.0f);
  }
  for (auto encode : wide.getOps<EncodeOp>())
    if (checked.contains(encode.getNumber()))
      map.lookup(encode.getCode()).getDefiningOp<EncodeOp>().setNeverNan(true);
}

void FastPathBody::build() {
  findShared();
  if (llvm::none_of(wide, [&](Operation &op) { return isReplaced(op); }))
    return;
  auto quick = std::make_unique<Region>();
  Block &block = quick->emplaceBlock();
  Location loc = sweep.getLoc();
  for (BlockArgument argument : wide.getArguments())
    map.map(argument, block.addArgument(argument.getType(), loc));
  low = block.addArgument(fromElements(b.getI32Type()), loc);
  sum = block.addArgument(fromElements(b.getF32Type()), loc);
  b.setInsertionPointToStart(&block);
  for (Operation &op : wide.without_terminator())
    if (isReplaced(op)) {
      made.insert(op.getResult(0));
      map.map(op.getResult(0), lower(op));
    } else {
      b.clone(op, map);
    }
  check();
  poison();
  SmallVector<Value> emitted;
  for (Value value : wide.getTerminator()->getOperands())
    emitted.push_back(map.lookupOrDefault(value));
  emitted.append({low, sum});
  EmitOp::create(b, emitted);
  addWideBody(sweep, sweep.getWidth(), std::move(quick));
}

// A GPU's look-ups in books beside a master in halves leave no registers for a
// guard.
static bool hasRegisters(SweepOp sweep, const Target &target) {
  if (!isBlockwise(sweep))
    return true;
  Region &body = sweep.getBody();
  bool searches = llvm::any_of(body.getOps<EncodeOp>(), getTable);
  return target.isPtx() && !(searches && !body.getOps<JoinCodesOp>().empty());
}

namespace {
struct FastPath : altgrad::impl::FastPathPassBase<FastPath> {
  using FastPathPassBase::FastPathPassBase;

  void runOnOperation() override {
    const Target *machine = findTarget(target, getOperation());
    if (!machine || failed(checkForm(getOperation(), getArgument(), Form::Vectorized, Form::FastPath)))
      return signalPassFailure();
    SmallVector<SweepOp> sweeps; // of the step, or of its phases
    getOperation().walk([&](SweepOp sweep) { sweeps.push_back(sweep); });
    for (SweepOp sweep : sweeps)
      if (sweep.getWide().size() == 1 && !sweep.usesTiles() && !sweep.getTiles() && hasRegisters(sweep, *machine))
        FastPathBody(sweep, *machine).build();
  }
};
} // namespace
