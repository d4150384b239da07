// States that are divided by: what is above 0 is not stored as 0.
#include "codegen/step/SetWriter.h"

#include "altgrad/book.h"

using namespace mlir;
using namespace altgrad;

LogicalResult SetWriter::checkKeepPositive(StringRef text, const StorageWord &word) {
  if (!word.keepPositive)
    return success();
  bool state = isRuled() && !llvm::is_contained({"param", "grad", "master", "copy", "step", "rungs"},
                                                word.stream);
  if (!state)
    return error() << "storage '" << text << "' says keep_positive of '" << word.stream
                   << "'; it is for states, as v=bnb8u:256,keep_positive";
  return success();
}

// What a number is over its scale where it has the smallest positive code.
static float leastShare(const Format &format, Companding bent) {
  if (bent == Companding::Sqrt)
    return 1.0f / 255;
  if (bent == Companding::Softsign)
    return 1.0f / 253; // 254 x / (1 + x) is 1
  if (!format.book)
    return decode(format, 1);
  const Book &book = books[format.book - 1];
  return book.numbers[book.zero + 1];
}

// Before it is divided by the scale, because a quotient may be 0. A number raised to the
// smallest one's share of the scale and a little more has its code, rounded in any way;
// and code times scale is no 0 from 2^-126 on. Zeros, negative numbers and NaNs stay.
std::string SetWriter::keptPositive(const Named &state, const std::string &number,
                                    StringRef scale) {
  Format format = codecOf(state.key);
  bool hasZero = format.book ? books[format.book - 1].numbers[books[format.book - 1].zero] == 0
                             : format.hasZero;
  if (!wordOf(state.key).keepPositive || !hasZero)
    return number;
  std::string name = "%" + state.name + ".kept";
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
  };
  float share = leastShare(format, compandingOf(state.key)) * 1.001f;
  line(".floor", "arith.constant " + bitsOf(share));
  std::string floor = name + ".floor";
  if (!scale.empty()) {
    line(".share", "arith.mulf " + floor + ", " + scale);
    line(".normal", "arith.constant " + bitsOf(0x1p-126f));
    line(".least", "arith.maximumf " + name + ".share, " + name + ".normal");
    floor = name + ".least";
  }
  line(".none", "arith.constant 0.0");
  line(".some", "arith.cmpf ogt, " + number + ", " + name + ".none");
  line(".raised", "arith.maximumf " + number + ", " + floor);
  line("", "arith.select " + name + ".some, " + name + ".raised, " + number);
  return name;
}

// The new values of a state without blocks.
std::string SetWriter::keptList(const Named &state) {
  std::string list = "%" + state.name + ".new";
  if (!wordOf(state.key).keepPositive)
    return list;
  std::string number = "%" + state.name + ".next";
  text.line(number + " = element " + list);
  std::string kept = keptPositive(state, number, "");
  if (kept == number)
    return list;
  text.line(kept + ".list = collect " + kept + " : f32 to !altgrad.reals");
  return kept + ".list";
}
