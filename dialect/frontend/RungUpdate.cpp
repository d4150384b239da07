// Parameters that move on a format's grid: a rung in, its rounded change out.
#include "dialect/frontend/SetBuilder.h"

using namespace mlir;
using namespace altgrad;

// A format of integers of so many bits, besides its sign if it has one.
static FormatAttr integers(MLIRContext *context, unsigned bits, int bias, bool hasSign = true) {
  return FormatAttr::get(context, /*exponent=*/0, bits, bias, /*inf=*/false, Nan::None, hasSign,
                         /*hasZero=*/true, Tie::Even, /*complement=*/false, /*book=*/0);
}

// The place of a code is its number among integers of its width.
static TensorsType getRungType(FormatAttr grid) {
  int bits = grid.getBits() - 1;
  return TensorsType::get(grid.getContext(), integers(grid.getContext(), bits, -bits));
}

// The rung of the parameter, a list that the update takes for it.
Value SetBuilder::loadRung(const Argument &param) {
  NamedOpBuilder ops = this->ops(param, "rungs");
  bool coded = storage.isCoded();
  Value codes = coded ? param.value : ops.quantize("snapped", before, storage.type("rungs"));
  rung.code = ops.make<LoadOp>("from", ops.builder.getI8Type(), codes);
  Value rungs = ops.make<RecodeOp>("place", getRungType(storage.format("rungs")), codes);
  Value list = ops.dequantize("rung", rungs);
  if (coded)
    return list;
  rung.number = ops.element("number", before);
  if (!storage.word("rungs").hasModifier("reference"))
    return list;
  // As searchsorted does: what lies between two numbers belongs to the upper one.
  Value near = ops.element("nearest", ops.dequantize("near", codes)), none = ops.f32("none", 0);
  rung.shift = ops.select("shift", ops.below("below", near, rung.number), ops.f32("one", 1), none);
  return ops.collect("firsts", ops.add("first", ops.element("place.number", list), rung.shift));
}

// floor(u - change) down: the sum as f32 rounds it.
static Value roundAsReference(const NamedOpBuilder &ops, Value change, Value draw) {
  MLIRContext *context = change.getContext();
  // A draw as a number of 65536ths.
  auto type = TensorsType::get(context, integers(context, 16, 0, /*hasSign=*/false));
  Value draws = ops.collect("draws", draw, type);
  Value sum = ops.sub("sum", ops.element("uniform", ops.dequantize("uniforms", draws)), change);
  Value known = ops.compare("known", arith::CmpFPredicate::ORD, sum, sum); // no NaN
  return ops.neg("by", ops.select("floor", known, ops.floor("whole", sum), ops.f32("nothing", 0)));
}

// Moves the code by `change`. Returns the new values.
Value SetBuilder::writeRung(const Argument &param, Value change) {
  NamedOpBuilder ops = this->ops(param, "rungs");
  const StorageWord &word = storage.word("rungs");
  Round round = word.round.value_or(Round::Stochastic);
  Value draw = storage.drawsRungs() ? this->draw(ops, word.drawBits(), 0) : Value();
  Value by = rung.change = ops.element("change.number", change);
  if (word.hasModifier("reference")) {
    by = roundAsReference(ops, by, std::exchange(draw, {}));
    by = rung.shift ? ops.add("by.shifted", by, rung.shift) : by;
    round = Round::TowardZero;
  }
  SmallVector<std::string> names{"next", "moved", "up", "beyond"};
  for (std::string &name : names)
    name = param.name + "." + name;
  auto move = ops.makeMany<AdvanceCodeOp>(names, rung.code, by, storage.format("rungs"), round, draw);
  rung.moved = move.getMoved(), rung.up = move.getUp(), rung.beyond = move.getBeyond();
  code = ops.collect("code", move.getNext(), storage.type("rungs"));
  Value values = ops.dequantize("new", code);
  if (storage.isCoded()) {
    step.write(code, param.value);
  } else {
    writeRounded(param, values, "param");
    Value now = ops.element("new.number", values);
    rung.moved = ops.compare("flips", arith::CmpFPredicate::ONE, now, rung.number);
    rung.up = ops.above("ups", now, rung.number);
  }
  countFlips();
  return values;
}

//===-- Counts --------------------------------------------------------------===//

// At how many elements the gradient pulls, and how many move.
void SetBuilder::countFlips() {
  Value pull = ops().abs("pull", ops().element("taken", gradient)), least = ops().f32("least", 1e-10f);
  writeStatistic("updates", countTrue(ops().above("pulls", pull, least), "updates"));
  writeStatistic("flips", countTrue(rung.moved, "flipped"));
}

// The rest, beside the other statistics: those that went up, that were to go beyond the
// last rung, and that were to move and did not.
void SetBuilder::measureRungs() {
  NamedOpBuilder ops = this->ops();
  writeStatistic("flips_up", countTrue(rung.up, "ups"));
  writeStatistic("saturated", countTrue(rung.beyond, "saturated"));
  Value moves = ops.compare("moves", arith::CmpFPredicate::ONE, rung.change, ops.f32("rest", 0));
  Value stays = ops.make<arith::ConstantOp>("stays", ops.builder.getBoolAttr(true));
  Value still = ops.make<arith::XOrIOp>("still", rung.moved, stays);
  writeStatistic("lost", countTrue(ops.logicalAnd("misses", moves, still), "lost"));
}
