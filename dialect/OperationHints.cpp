// What a rule writes instead of an operation that is not allowed.
#include "dialect/Arithmetic.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

namespace {
// What is not there, and how a rule says it.
struct OperationHint {
  StringLiteral names, words;
};
} // namespace

static constexpr StringLiteral wholeNumbers =
    "elements have no integers; a scalar in f64 goes through fptosi and sitofp";
static constexpr OperationHint instead[] = {
    {"pow", "write math.powf"},
    {"ipowi", "write muli %x, %x"},
    {"sinh cosh", "write math.exp of the number and of its negative"},
    {"tan", "write math.sin, math.cos and divf"},
    {"atan", "write math.atan2 %x, %one with constant 1.0"},
    {"erfc", "write subf of 1.0 and math.erf"},
    {"log10", "write math.log and mulf by 0.4342944819032518"},
    {"logistic", "write altgrad.sigmoid"},
    {"silu swish", "write altgrad.sigmoid and mulf"},
    {"absi", "write cmpi slt, subi and select"},
    {"minnumf minf min", "write minimumf"},
    {"maxnumf maxf max", "write maximumf"},
    {"clampf clamp", "write maximumf with the lower bound and minimumf with the upper one"},
    {"minsi", "write cmpi slt and select"},
    {"maxsi", "write cmpi sgt and select"},
    {"minui", "write cmpi ult and select"},
    {"maxui", "write cmpi ugt and select"},
    {"isnan", "write cmpf uno, %x, %x"},
    {"isinf", "write math.absf and cmpf oeq with constant 0x7F800000 : f32"},
    {"isfinite", "write math.absf and cmpf olt with constant 0x7F800000 : f32"},
    {"floor", "write math.floor"},
    {"ceil round roundeven trunc", wholeNumbers},
    {"sin cos tan asin acos atan atan2 erf", "elements have no such function; a polynomial is math.fma of constants"},
    {"sign", "write math.copysign of 1.0, and select 0.0 where the number is 0"},
    {"uitofp", "write sitofp"},
    {"fptoui", "write fptosi"},
    {"index_cast extsi", "integers are i64 everywhere; leave it out"},
    {"extui", "write select with the constants 1 and 0; other integers are i64 everywhere"},
    {"trunci", "write andi with a constant; integers are i64 everywhere"},
    {"shrsi", "write shrui"},
    {"divui divsi", "by a power of two write shrui; there is no other division of integers"},
    {"remui remsi", "by a power of two write andi; there is no other remainder of integers"},
    {"sub", "write subf of numbers, subi of integers"},
    {"add", "write addf of numbers, addi of integers"},
    {"mul", "write mulf of numbers, muli of integers"},
    {"div", "write divf"},
    {"neg", "write negf"},
    {"abs", "write math.absf"},
    {"cast", "write truncf from f64 to f32"},
    {"if", "a rule has no regions; compute both and choose with select"},
    {"for while", "a rule has no loops; write the operations out"},
    {"call", "a rule calls nothing; write the operations out"},
    {"return yield", "write altgrad.yield param(%w1) state(...)"},
};

// As a rule writes it.
static StringRef shortName(const AllowedOperation &op) {
  StringRef name = op.name;
  name.consume_front("arith.");
  return name;
}

std::string altgrad::describeReplacement(StringRef name) {
  StringRef bare = name.rsplit('.').second;
  if (bare.empty())
    bare = name;
  // A function of `math` or ours that was written without its dialect.
  for (const AllowedOperation &op : allowedOperations())
    if (op.name.rsplit('.').second == bare)
      return ("; write " + shortName(op)).str();
  for (const OperationHint &row : instead)
    if (llvm::is_contained(llvm::split(row.names, ' '), bare))
      return ("; " + row.words + "; altgrad-opt --list-ops lists what is allowed").str();
  return "; altgrad-opt --list-ops lists what is allowed";
}
