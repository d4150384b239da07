// Whole numbers in f32 ==> integers, as narrow as their bounds allow: what rungs are
// counted in. A sum of them has the same digits either way; an f32 alone knows -0.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace altgrad;

namespace {
// What is known of a whole number, and the bits of an integer for it and for what it
// is made of.
struct Whole {
  int64_t low, high;
  bool minusZero; // as which it may come
  unsigned bits;

  Whole(int64_t low, int64_t high, bool minusZero, unsigned bits = 8)
      : low(low), high(high), minusZero(minusZero), bits(std::max(bits, low < -32768 || high > 32767 ? 32u
                                                                        : low < -128 || high > 127   ? 16u
                                                                                                     : 8u)) {}
  Whole with(const Whole &other) const {
    return Whole(std::min(low, other.low), std::max(high, other.high), minusZero || other.minusZero,
                 std::max(width(), other.width()));
  }
  /// Of its own bounds alone.
  unsigned width() const { return Whole(low, high, false).bits; }
};

class WholeNumbers {
public:
  /// Codes and comparisons of whole numbers.
  void rewrite(Operation *root);

private:
  std::optional<Whole> find(Value value);
  std::optional<Whole> of(Value value);
  std::optional<Whole> ofChoice(arith::SelectOp op);
  Value make(Value value, const Whole &whole);
  Value get(Value value, unsigned bits);
  Value compare(arith::CmpFOp op);
  Value encode(EncodeOp op);

  llvm::DenseMap<Value, std::optional<Whole>> known;
  llvm::DenseMap<Value, Value> made;
};
} // namespace

// A sign and a magnitude, which counts from 0 on.
static bool isPlace(FormatAttr attribute) {
  if (attribute.isBook())
    return false;
  Format format = attribute.toFormat();
  return format.exponentBits == 0 && format.hasSign && format.hasZero && !format.complement &&
         format.nan == NanCode::None && Shape(format).unit() == 0;
}

static std::optional<int64_t> wholeConstant(Value value) {
  FloatAttr scalar;
  SplatElementsAttr splat;
  APFloat number(0.0f);
  if (matchPattern(value, m_Constant(&splat)))
    number = splat.getSplatValue<APFloat>();
  else if (matchPattern(value, m_Constant(&scalar)))
    number = scalar.getValue();
  else
    return {};
  if (!number.isInteger() || number.isNegZero() || std::abs(number.convertToDouble()) > 1 << 24)
    return {};
  return int64_t(number.convertToDouble());
}

static EncodeOp roundedBy(DecodeOp op) {
  auto encode = op.getCode().getDefiningOp<EncodeOp>();
  return encode && encode.getFormat() == op.getFormat() ? encode : EncodeOp();
}

std::optional<Whole> WholeNumbers::of(Value value) {
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  std::optional<Whole> whole;
  if (getElementTypeOrSelf(value.getType()).isF32() && value.getDefiningOp())
    whole = find(value);
  return known[value] = whole;
}

// What is chosen where its magnitude is above a number is no zero.
std::optional<Whole> WholeNumbers::ofChoice(arith::SelectOp op) {
  std::optional<Whole> yes = of(op.getTrueValue()), no = of(op.getFalseValue());
  if (!yes || !no)
    return {};
  auto test = op.getCondition().getDefiningOp<arith::CmpFOp>();
  auto magnitude = test ? test.getLhs().getDefiningOp<math::AbsFOp>() : math::AbsFOp();
  if (magnitude && magnitude.getOperand() == op.getTrueValue() && test.getPredicate() == arith::CmpFPredicate::OGT &&
      wholeConstant(test.getRhs()).value_or(-1) >= 0)
    yes->minusZero = false;
  return yes->with(*no);
}

std::optional<Whole> WholeNumbers::find(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto constant = wholeConstant(value))
    return Whole(*constant, *constant, false);
  if (auto decode = dyn_cast<DecodeOp>(op)) {
    if (!isPlace(decode.getFormat()))
      return {};
    EncodeOp rounded = roundedBy(decode);
    if (rounded && rounded.getRounding() == Round::NearestEven)
      return {};
    int64_t most = decode.getFormat().toFormat().maxCode();
    return Whole(-most, most, true);
  }
  if (auto choice = dyn_cast<arith::SelectOp>(op))
    return ofChoice(choice);
  if (!isa<arith::AddFOp, arith::MaximumFOp, arith::MinimumFOp, math::AbsFOp>(op))
    return {};
  std::optional<Whole> a = of(op->getOperand(0));
  if (!a)
    return {};
  int64_t most = std::max(-a->low, a->high);
  if (isa<math::AbsFOp>(op))
    return Whole(0, most, false, a->width());
  std::optional<Whole> b = of(op->getOperand(1));
  if (!b)
    return {};
  unsigned bits = std::max(a->width(), b->width());
  if (isa<arith::MaximumFOp>(op))
    return Whole(std::max(a->low, b->low), std::max(a->high, b->high), a->minusZero || b->minusZero, bits);
  if (isa<arith::MinimumFOp>(op))
    return Whole(std::min(a->low, b->low), std::min(a->high, b->high), a->minusZero || b->minusZero, bits);
  if (most + std::max(-b->low, b->high) > 1 << 24)
    return {};
  return Whole(a->low + b->low, a->high + b->high, a->minusZero && b->minusZero, bits);
}

static Integers integersLike(CodeBuilder &b, Value value, unsigned bits) {
  return {b, Integers{b, value.getType()}.of(b.getIntegerType(bits))};
}

static Value resize(CodeBuilder &b, Value value, unsigned bits) {
  Type type = Integers{b, value.getType()}.of(b.getIntegerType(bits));
  unsigned old = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  if (old == bits)
    return value;
  return bits > old ? b.widenSigned(type, value) : b.narrow(type, value);
}

static Value isNegative(const Integers &integers, Value value) { return integers.b.less(value, integers.constant(0)); }

static Value withSignOf(const Integers &integers, Value negative, Value magnitude) {
  return integers.choose(negative, integers.sub(integers.constant(0), magnitude), magnitude);
}

// In a code's own bits there is room for its negative, too.
static Value placeOf(CodeBuilder &b, DecodeOp op, unsigned bits) {
  Format format = op.getFormat().toFormat();
  Integers codes{b, op.getCode().getType()};
  Value sign = codes.both(op.getCode(), codes.constant(format.signBit()));
  Value magnitude = codes.both(op.getCode(), codes.constant(format.magnitudes() - 1));
  Value negative = b.differs(sign, codes.constant(0));
  return resize(b, withSignOf(codes, negative, magnitude), bits);
}

// Of -x: a choice the other way round.
static Value signedSteps(const Integers &integers, EncodeOp op) {
  CodeBuilder &b = integers.b;
  Value steps = resize(b, stepsByBits(b, op), getElementTypeOrSelf(integers.type).getIntOrFloatBitWidth());
  Value minus = integers.sub(integers.constant(0), steps);
  Bits bits{b, op.getNumber().getType()};
  auto negative = op.getNumber().getDefiningOp<arith::NegFOp>();
  Value number = negative ? negative.getOperand() : op.getNumber();
  Value below = isNegative(bits, bits.cast(number, bits.type));
  return negative ? integers.choose(below, steps, minus) : integers.choose(below, minus, steps);
}

Value WholeNumbers::make(Value value, const Whole &whole) {
  Operation *op = value.getDefiningOp();
  CodeBuilder b(op->getLoc(), op);
  Integers integers = integersLike(b, value, whole.bits);
  if (auto constant = wholeConstant(value))
    return integers.constant(*constant);
  if (auto decode = dyn_cast<DecodeOp>(op)) {
    EncodeOp rounded = roundedBy(decode);
    if (!rounded)
      return placeOf(b, decode, whole.bits);
    return signedSteps(integers, rounded);
  }
  auto part = [&](unsigned i) { return get(op->getOperand(i), whole.bits); };
  if (isa<arith::SelectOp>(op))
    return integers.choose(op->getOperand(0), part(1), part(2));
  if (isa<math::AbsFOp>(op))
    return b.abs(part(0));
  if (isa<arith::MaximumFOp>(op))
    return b.most(part(0), part(1));
  if (isa<arith::MinimumFOp>(op))
    return b.least(part(0), part(1));
  return integers.add(part(0), part(1));
}

Value WholeNumbers::get(Value value, unsigned bits) {
  Value &own = made[value];
  if (!own) {
    Value integer = make(value, *of(value));
    made[value] = integer; // others were made meanwhile, and `own` may have moved
    return get(value, bits);
  }
  CodeBuilder b(value.getLoc(), value.getContext());
  b.setInsertionPointAfterValue(own);
  return resize(b, own, bits);
}

static std::optional<arith::CmpIPredicate> predicateOf(arith::CmpFOp op) {
  switch (op.getPredicate()) {
  case arith::CmpFPredicate::OEQ:
  case arith::CmpFPredicate::UEQ:
    return arith::CmpIPredicate::eq;
  case arith::CmpFPredicate::ONE:
  case arith::CmpFPredicate::UNE:
    return arith::CmpIPredicate::ne;
  case arith::CmpFPredicate::OGT:
  case arith::CmpFPredicate::UGT:
    return arith::CmpIPredicate::sgt;
  case arith::CmpFPredicate::OGE:
  case arith::CmpFPredicate::UGE:
    return arith::CmpIPredicate::sge;
  case arith::CmpFPredicate::OLT:
  case arith::CmpFPredicate::ULT:
    return arith::CmpIPredicate::slt;
  case arith::CmpFPredicate::OLE:
  case arith::CmpFPredicate::ULE:
    return arith::CmpIPredicate::sle;
  default:
    return {};
  }
}

Value WholeNumbers::compare(arith::CmpFOp op) {
  std::optional<Whole> a = of(op.getLhs()), b = of(op.getRhs());
  std::optional<arith::CmpIPredicate> predicate = predicateOf(op);
  if (!a || !b || !predicate)
    return {};
  unsigned bits = std::max(a->width(), b->width());
  Value left = get(op.getLhs(), bits), right = get(op.getRhs(), bits);
  CodeBuilder builder(op->getLoc(), op);
  return arith::CmpIOp::create(builder, *predicate, left, right);
}

Value WholeNumbers::encode(EncodeOp op) {
  std::optional<Whole> whole = of(op.getNumber());
  if (!whole || whole->minusZero || !isPlace(op.getFormat()) || op.getRounding() != Round::NearestEven)
    return {};
  Format format = op.getFormat().toFormat();
  int64_t most = format.maxCode();
  unsigned bits = std::max(whole->width(), Whole(-most, most, false).bits);
  Value place = get(op.getNumber(), bits);
  CodeBuilder b(op->getLoc(), op);
  if (whole->low < -most || whole->high > most) {
    Integers wide = integersLike(b, place, bits);
    place = b.most(place, wide.constant(-most));
    place = b.least(place, wide.constant(most));
  }
  Integers codes{b, op.getCode().getType()};
  place = resize(b, place, getElementTypeOrSelf(codes.type).getIntOrFloatBitWidth());
  Value sign = codes.choose(isNegative(codes, place), codes.constant(format.signBit()), codes.constant(0));
  return codes.either(b.abs(place), sign);
}

void WholeNumbers::rewrite(Operation *root) {
  SmallVector<Operation *> found;
  root->walk([&](Operation *op) {
    if (isa<EncodeOp, arith::CmpFOp>(op))
      found.push_back(op);
    for (Value operand : op->getOperands())
      of(operand); // while comparisons are still there to be asked
  });
  for (Operation *op : found) {
    auto code = dyn_cast<EncodeOp>(op);
    Value integer = code ? encode(code) : compare(cast<arith::CmpFOp>(op));
    if (!integer)
      continue;
    op->getResult(0).replaceAllUsesWith(integer);
    op->erase();
  }
}

void altgrad::useIntegers(Operation *root) { WholeNumbers().rewrite(root); }
