// move ==> integers: on a host as narrow as their bounds allow, on a GPU in its registers of 32 bits.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/Numerics.h"

using namespace mlir;
using namespace altgrad;

// A change in rungs: with it sums have 16 bits.
static constexpr Format changes{/*exponentBits=*/0, /*mantissaBits=*/9, /*bias=*/-9, /*hasInf=*/false, NanCode::None};

static Value negated(const Integers &of, Value value) { return of.sub(of.constant(0), value); }

static Value isNegative(const Integers &of, Value value) { return of.b.less(value, of.constant(0)); }

void altgrad::lowerAdvanceCode(CodeBuilder &b, AdvanceCodeOp op, bool inWords) {
  Format grid = op.getFormat().toFormat();
  Bits bits{b, op.getChange().getType()};
  Type codeType = op.getCode().getType();
  Integers places{b, inWords ? bits.type : codeType}, sums{b, inWords ? bits.type : bits.of(b.getI16Type())};
  auto toSum = [&](Value place) { return inWords ? place : b.extendSigned(sums.type, place); };
  // In a code's own bits there is room for its negative, too.
  auto toWord = [&](ValueRange code) { return b.extendUnsigned(b.getI32Type(), code[0]); };
  Value code = inWords ? oneByOne(b, places.type, op.getCode(), toWord) : op.getCode();
  Value size = places.bitAnd(code, places.constant(grid.magnitudes() - 1));
  Value below = b.notEqual(places.bitAnd(code, places.constant(grid.signBit())), places.constant(0));
  Value from = places.select(below, negated(places, size), size);
  Value steps = stepsByBits(b, op.getChange(), changes, op.getRounding(), op.getDraw());
  if (!inWords)
    steps = b.truncate(sums.type, steps);
  Value down = isNegative(bits, bits.cast(op.getChange(), bits.type));
  Value sum = sums.add(toSum(from), sums.select(down, negated(sums, steps), steps));
  Value least = sums.constant(-int64_t(grid.maxCode())), most = sums.constant(grid.maxCode());
  Value to = sums.minSigned(b.maxSigned(sum, least), most);
  if (!inWords)
    to = b.truncate(places.type, to);
  if (grid.maxCode() + 1 < grid.magnitudes())
    to = places.select(places.greater(size, places.constant(grid.maxCode())), from, to);
  Value negative = isNegative(places, to);
  Value next = places.select(negative, negated(places, to), to);
  next = places.bitOr(next, places.select(negative, places.constant(grid.signBit()), places.constant(0)));
  if (inWords)
    next = b.truncate(codeType, next);
  Value beyond = b.bitOr(sums.greater(sum, most), b.less(sum, least));
  op.replaceAllUsesWith(ValueRange{next, b.notEqual(to, from), places.greater(to, from), beyond});
  op.erase();
}
