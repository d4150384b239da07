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
  Integers rungs{b, inWords ? bits.type : codeType}, sums{b, inWords ? bits.type : bits.of(b.getI16Type())};
  auto toSum = [&](Value rung) { return inWords ? rung : b.extendSigned(sums.type, rung); };
  // In a code's own bits there is room for its negative, too.
  auto toWord = [&](ValueRange code) { return b.extendUnsigned(b.getI32Type(), code[0]); };
  Value code = inWords ? scalarize(b, rungs.type, op.getCode(), toWord) : op.getCode();
  Value size = rungs.bitAnd(code, rungs.constant(grid.magnitudes() - 1));
  Value below = b.notEqual(rungs.bitAnd(code, rungs.constant(grid.signBit())), rungs.constant(0));
  Value from = rungs.select(below, negated(rungs, size), size);
  Value steps = stepsByBits(b, op.getChange(), changes, op.getRounding(), op.getDraw());
  if (!inWords)
    steps = b.truncate(sums.type, steps);
  Value down = isNegative(bits, bits.cast(op.getChange(), bits.type));
  Value sum = sums.add(toSum(from), sums.select(down, negated(sums, steps), steps));
  Value least = sums.constant(-int64_t(grid.maxCode())), most = sums.constant(grid.maxCode());
  Value to = sums.minSigned(b.maxSigned(sum, least), most);
  if (!inWords)
    to = b.truncate(rungs.type, to);
  if (grid.maxCode() + 1 < grid.magnitudes())
    to = rungs.select(rungs.greater(size, rungs.constant(grid.maxCode())), from, to);
  Value negative = isNegative(rungs, to);
  Value next = rungs.select(negative, negated(rungs, to), to);
  next = rungs.bitOr(next, rungs.select(negative, rungs.constant(grid.signBit()), rungs.constant(0)));
  if (inWords)
    next = b.truncate(codeType, next);
  Value beyond = b.bitOr(sums.greater(sum, most), b.less(sum, least));
  op.replaceAllUsesWith(ValueRange{next, b.notEqual(to, from), rungs.greater(to, from), beyond});
  op.erase();
}
