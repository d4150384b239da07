// Parameters that move on a format's grid: a rung in, its rounded change out.
#include "codegen/frontend/SetBuilder.h"

using namespace mlir;
using namespace altgrad;

// The place of a code is its number among integers of its width.
static TensorsType placesOf(MLIRContext *context, const Format &grid) {
  int bits = grid.bits() - 1;
  return TensorsType::get(context, integers(context, bits, -bits));
}

// `list` as whole numbers. Whole rungs: beyond 255 all are alike, and an i16 holds their sums.
static Value whole(const Ops &ops, const std::string &name, Value list, Round round, Value draw = {}) {
  MLIRContext *context = list.getContext();
  auto moves = TensorsType::get(context, integers(context, 9, -9));
  Value codes = ops.quantize(name + ".codes", list, moves, round, OverflowMode::Saturate, draw);
  return ops.element(name, ops.dequantize(name + ".list", codes));
}

// The rung of the parameter, a list that the update takes for it.
Value SetBuilder::loadRung(const Argument &param) {
  Ops ops = this->ops(param, "rungs");
  bool coded = storage.isCoded();
  Value codes = coded ? param.value : ops.quantize("snapped", before, storage.type("rungs"));
  Value places = ops.make<RecodeOp>("place", placesOf(codes.getContext(), storage.codec("rungs")), codes);
  Value list = ops.dequantize("rung", places);
  rung.code = rung.from = ops.element("from", list);
  rung.old = coded ? rung.from : ops.element("number", before);
  if (coded || !storage.word("rungs").reference)
    return list;
  // As searchsorted does: what lies between two numbers belongs to the upper one.
  Value near = ops.element("nearest", ops.dequantize("near", codes));
  Value below = ops.below("below", near, rung.old);
  Value upper = ops.add("upper", rung.from, ops.f32("one", 1));
  rung.from = ops.select("first", below, upper, rung.from);
  return ops.collect("firsts", rung.from);
}

// floor(u - change) down: the sum as f32 rounds it.
static Value roundAsReference(const Ops &ops, Value change, Value draw) {
  // A draw as a number of 65536ths.
  auto type = TensorsType::get(change.getContext(), integers(change.getContext(), 16, 0, /*hasSign=*/false));
  Value draws = ops.collect("draws", draw, type);
  Value uniform = ops.element("uniform", ops.dequantize("uniforms", draws));
  Value down = ops.neg("down", ops.element("by.number", change));
  Value sum = ops.add("sum", down, uniform);
  Value cut = whole(ops, "cut", ops.collect("sums", sum), Round::TowardZero);
  Value unit = ops.f32("unit", 1);
  Value negative = ops.above("negative", cut, sum), less = ops.sub("less", cut, unit);
  return ops.neg("by", ops.select("floor", negative, less, cut));
}

// `change` as a whole number of rungs.
Value SetBuilder::roundRungs(Ops ops, Value change) {
  const StorageWord &word = storage.word("rungs");
  if (!storage.drawsRungs())
    return whole(ops, "by", change, *word.round);
  Value draw = this->draw(ops, word.drawBits, 0);
  return word.reference ? roundAsReference(ops, change, draw) : whole(ops, "by", change, Round::Stochastic, draw);
}

// Moves the rung by `change`, not beyond the last one. A code that is no number
// stays what it is, and -0 becomes 0. Returns the new values.
Value SetBuilder::storeRung(const Argument &param, Value change) {
  Ops ops = this->ops(param, "rungs");
  Format grid = storage.codec("rungs");
  rung.change = change;
  Value by = roundRungs(ops, change);
  float last = grid.maxCode();
  rung.to = ops.add("to", rung.from, by);
  Value least = ops.f32("bottom", -last), most = ops.f32("top", last);
  Value bounded = ops.min("bounded", ops.max("raised", rung.to, least), most);
  Value next = ops.add("next", bounded, ops.f32("zero", 0));
  if (grid.maxCode() + 1 < grid.magnitudes()) {
    Value special = ops.above("special", ops.abs("magnitude", rung.code), most);
    next = ops.select("kept", special, rung.code, next);
  }
  Value places = ops.quantize("next.place", ops.collect("nexts", next), placesOf(next.getContext(), grid));
  code = ops.make<RecodeOp>("moved", storage.type("rungs"), places);
  Value values = ops.dequantize("new", code);
  if (storage.isCoded())
    step.write(code, param.value);
  else
    store(param, values, "param");
  rung.now = storage.isCoded() ? next : ops.element("new.number", values);
  countFlips();
  return values;
}

//===-- Counts --------------------------------------------------------------===//

// At how many elements the gradient pulls, and how many move.
void SetBuilder::countFlips() {
  Value pull = ops().abs("pull", ops().element("taken", gradient)), least = ops().f32("least", 1e-10f);
  measured("updates", countOf(ops().above("pulls", pull, least), "updates"));
  rung.flips = ops().compare("flips", arith::CmpFPredicate::ONE, rung.now, rung.old);
  measured("flips", countOf(rung.flips, "flipped"));
}

// The rest, beside the other statistics: those that went up, that were to go beyond the
// last rung, and that were to move and did not.
void SetBuilder::measureRungs() {
  Ops ops = this->ops();
  measured("flips_up", countOf(ops.above("up", rung.now, rung.old), "ups"));
  Value goal = ops.abs("goal", rung.to), end = ops.f32("end", storage.codec("rungs").maxCode());
  measured("saturated", countOf(ops.above("beyond", goal, end), "saturated"));
  Value rest = ops.f32("rest", 0), change = ops.element("step", rung.change);
  Value moves = ops.compare("moves", arith::CmpFPredicate::ONE, change, rest);
  Value stays = ops.make<arith::ConstantOp>("stays", ops.builder.getBoolAttr(true));
  Value still = ops.make<arith::XOrIOp>("still", rung.flips, stays);
  measured("lost", countOf(ops.both("misses", moves, still), "lost"));
}
