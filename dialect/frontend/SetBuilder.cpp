// A rule and its storage ==> streams, scalars, an update and its writes.
#include "dialect/Entries.h"
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

//===-- Arguments and stores ------------------------------------------------===//

Argument SetBuilder::list(Access access, Role role, StringRef key, TensorsType type) {
  Argument names{{}, step.makeUniqueName((key + suffix()).str()), key.str()};
  names.value = step.argument(access, role, names, type, Scope::Step, storage.set,
                              storage.getLocation(role == Role::state || role == Role::input ? key
                                                  : role == Role::remainder                  ? "master"
                                                                                             : stringifyRole(role)));
  return names;
}

std::unique_ptr<BlockCodec> SetBuilder::codec(Access access, Role role, StringRef key, StringRef stream) {
  return storage.codec(stream).make(*this, list(access, role, key, storage.type(stream)), access, stream);
}

Argument SetBuilder::scales(Access access, const Argument &of, StringRef stream, TensorsType type) {
  Argument names{{}, step.makeUniqueName(of.key + "_scale" + suffix()), of.key};
  names.value =
      step.argument(access, Role::block_scale, names, type, Scope::Step, storage.set, storage.getLocation(stream));
  return names;
}

Argument SetBuilder::scalar(Access access, Role role, StringRef key, Type type, Scope scope, FloatAttr fallback) {
  Argument names{{}, step.makeUniqueName((key + suffix()).str()), key.str()};
  names.value = step.argument(access, role, names, type, scope, setOfScalars(), storage.getRuleLocation(), fallback);
  return names;
}

Value SetBuilder::draw(NamedOpBuilder ops, unsigned bits, unsigned store) const {
  return ops.make<DrawOp>("draw", ops.builder.getIntegerType(bits), step.scalar("seed"), step.count, store);
}

Value SetBuilder::writeRounded(const Argument &target, Value value, StringRef stream,
                               std::optional<OverflowMode> overflow) {
  FormatAttr format = storage.format(stream);
  if (!format.isF32()) {
    const StorageWord &word = storage.word(stream);
    NamedOpBuilder ops = this->ops(target, stream);
    OverflowMode fitting = format.overflowsToInf() ? OverflowMode::NonFinite : OverflowMode::Saturate;
    Value draw = word.stochastic() ? this->draw(ops, word.drawBits(), storage.getStoreIndex(stream)) : Value();
    value = ops.quantize("code", value, target.type(), word.round.value_or(Round::NearestEven),
                         word.overflow.value_or(overflow.value_or(fitting)), draw);
  }
  step.write(value, target.value);
  return value;
}

void SetBuilder::writeCopy(Value value) { codec(Access::Out, Role::copy, "copy", "copy")->encode(value); }

//===-- The gradient --------------------------------------------------------===//

void SetBuilder::addGradient(bool changes) {
  StringRef key = rule ? getName(Role::grad) : "grad";
  bool inPlace = changes && !rule && !storage.hasWord("copy");
  grad = list(inPlace ? Access::InOut : Access::In, Role::grad, key, storage.type("grad"));
}

void SetBuilder::dequantizeGradient() { gradient = unclipped = ops().dequantize("value", grad.value); }

Value SetBuilder::unscaleGradient(Value factor) {
  auto unscale =
      ops().makeMany<UnscaleOp>({grad.name + ".value", grad.name + ".finite"}, RealsType::get(factor.getContext()),
                                ops().builder.getI1Type(), grad.value, factor);
  gradient = unclipped = unscale.getValues();
  return unscale.getFinite();
}

// What is multiplied is written back by torch, and read again.
void SetBuilder::roundGradient(const Twine &word) {
  std::string name = word.str();
  NamedOpBuilder ops = this->ops();
  if (storage.format("grad").isF32())
    gradient = ops.collect(name, ops.element(name + ".each", gradient));
  else
    gradient = ops.dequantize(
        name, ops.quantize(name + ".code", gradient, grad.type(), Round::NearestEven, OverflowMode::NonFinite));
}

Value SetBuilder::addNorm(NormKind kind) {
  Value norm = step.ops("clip.").norm("norm" + suffix(), kind, gradient, Scope::Tensor);
  step.writeAlways(norm, scalar(Access::Out, Role::norm, "norm", step.f32).value);
  return norm;
}

// Adaptive gradient clipping (Brock et al. 2021, "High-Performance Large-Scale Image Recognition Without
// Normalization"), by units or with the whole tensor as one: to max_norm * max(|w|, 1e-3). A norm that is NaN makes all
// of its gradient NaN, as a global clip does.
void SetBuilder::clipToParameter() {
  NamedOpBuilder ops = this->ops();
  Value norm = ops.norm("length", NormKind::L2, gradient, *clippedOver);
  Value own = ops.norm("weight_length", NormKind::L2, before, *clippedOver);
  Value size = ops.f32("smallest", 1.0e-3f);
  size = ops.max("unit", own, size);
  Value bound = ops.mul("bound", step.scalar("max_norm"), size);
  Value above = ops.compare("above", arith::CmpFPredicate::UGT, norm, bound);
  Value tiny = ops.f32("tiny", 1.0e-6f);
  Value ratio = ops.div("ratio", bound, ops.max("divisor", norm, tiny));
  scaleBy(ops.select("factor", above, ratio, ops.f32("one", 1)));
}

//===-- The update ----------------------------------------------------------===//

void SetBuilder::addHypers() {
  for (BlockArgument hyper : rule.getByRole(Role::hyper)) {
    StringRef key = rule.getName(hyper);
    auto fallback = cast_or_null<FloatAttr>(rule.getDefault(hyper));
    hypers[key] = rule.getScope(hyper) == Scope::Step
                      ? step.getOrAddScalar(rule.getSymName(), Access::In, Role::hyper, key, step.f64,
                                            storage.getRuleLocation(), fallback)
                            .first.value
                      : scalar(Access::In, Role::hyper, key, step.f64, Scope::Group, fallback).value;
  }
}

void SetBuilder::countStep() {
  if (rule.getByRole(Role::step).empty())
    return;
  bool real = storage.word("step").format == "f32", isEntry = !getEntryRule(rule).empty();
  Argument steps =
      scalar(isEntry ? Access::In : Access::InOut, Role::step, getName(Role::step), real ? step.f32 : step.i64);
  NamedOpBuilder ops = this->ops(steps, "step");
  if (isEntry) { // which counts no step
    count = real ? ops.make<arith::FPToSIOp>("number", step.i64, steps.value) : steps.value;
    return;
  }
  Value one = real ? ops.f32("one", 1) : ops.i64("one", 1);
  Value next = real ? ops.add("next", steps.value, one) : ops.make<arith::AddIOp>("next", steps.value, one);
  count = real ? ops.make<arith::FPToSIOp>("number", step.i64, next) : next;
  step.write(next, steps.value);
}

// A number of the step is written by the first set of its rule: the others compute the same.
std::pair<Argument, bool> SetBuilder::scalarState(BlockArgument state) {
  auto first = cast_or_null<FloatAttr>(rule.getDefault(state));
  StringRef key = rule.getName(state);
  bool changes = rule.changes(state, storage.options);
  Access access = changes ? Access::InOut : Access::In;
  if (Scope scope = rule.getScope(state); scope != Scope::Step)
    return {scalar(access, Role::state, key, state.getType(), scope, first), changes};
  auto [argument, isNew] = step.getOrAddScalar(rule.getSymName(), access, Role::state, key, state.getType(),
                                               storage.getRuleLocation(), first);
  return {argument, isNew && changes};
}

void SetBuilder::update() {
  bool hasSeparateMaster = storage.hasWord("master") && !storage.splitsMaster(), inRungs = storage.inRungs();
  auto param = codec(hasSeparateMaster ? Access::Out : Access::InOut, Role::param, getName(Role::param), "param");
  auto master = hasSeparateMaster ? codec(Access::InOut, Role::master, "master", "master") : nullptr;
  before = (master ? master : param)->decode();
  Value operand = inRungs ? loadRung(param->target) : before;
  if (clippedOver)
    clipToParameter();
  std::vector<std::unique_ptr<BlockCodec>> states;
  SmallVector<bool> areChanged;
  SmallVector<std::pair<Argument, bool>> scalars; // and whether they are written here
  SmallVector<Value> operands, scalarOperands;
  SmallVector<std::string> names{param->target.name + (inRungs ? ".change" : ".new")};
  for (BlockArgument state : storage.states) {
    StringRef key = rule.getName(state);
    if (rule.isScalarState(state)) {
      scalars.push_back(scalarState(state));
      scalarOperands.push_back(scalars.back().first.value);
      continue;
    }
    areChanged.push_back(rule.changes(state, storage.options));
    const Access access = areChanged.back() ? Access::InOut : Access::In;
    operands.push_back(states.emplace_back(codec(access, Role::state, key, key))->decode());
    names.push_back(states.back()->target.name + ".new");
  }
  SmallVector<Value> inputs;
  for (BlockArgument input : rule.getByRole(Role::input)) {
    StringRef key = rule.getName(input);
    Argument given = list(Access::In, Role::input, key, storage.tensors(storage.formatName(key)));
    inputs.push_back(this->ops(given, key).dequantize("value", given.value));
  }
  addHypers();
  countStep();
  for (const auto &[state, isWritten] : scalars)
    names.push_back(state.name + ".new");
  SmallVector<Value> numbers;
  for (BlockArgument hyper : rule.getByRole(Role::hyper))
    numbers.push_back(hypers[rule.getName(hyper)]);
  NamedOpBuilder ops = step.ops("", rule.getLoc());
  bool draws = rule.draws(storage.options);
  auto update = ops.makeMany<UpdateOp>(names, rule.getSymName(), ops.builder.getStrArrayAttr(storage.options), operand,
                                       gradient, operands, scalarOperands, numbers, count, inRungs ? before : Value(),
                                       inputs, draws ? step.scalar("seed") : Value(), draws ? step.count : Value());
  after = update.getNewParam();
  if (inRungs)
    after = writeRung(param->target, after);
  else
    param->encode(after);
  code = inRungs ? code : param->code;
  if (master)
    master->encode(after);
  if (storage.hasWord("copy"))
    writeCopy(after);
  for (auto [state, value, isChanged] : llvm::zip(states, update.getNewStates(), areChanged))
    if (isChanged)
      state->encode(value);
  for (auto [state, value] : llvm::zip(scalars, update.getNewStates().take_back(scalars.size())))
    if (state.second)
      step.write(value, state.first.value);
}

//===-- Statistics ----------------------------------------------------------===//

// Reductions over a tensor join the sweep that has their operands: no further pass.
Value SetBuilder::norm(Value element, const Twine &name) {
  std::string word = name.str();
  return ops().sqrt(word, ops().reduce(word + ".squares", Reduction::SumSq, element, Scope::Tensor));
}

Value SetBuilder::countTrue(Value condition, const Twine &name) {
  return ops().reduce(name, Reduction::Count, condition, Scope::Tensor);
}

// What is found in the update's sweep is there only if that one has run.
void SetBuilder::writeStatistic(StringRef key, Value value, bool always) {
  Value target = scalar(Access::Out, Role::statistic, key, step.f32).value;
  always ? step.writeAlways(value, target) : step.write(value, target);
}

void SetBuilder::measure() {
  NamedOpBuilder ops = this->ops();
  // Of what is stored: the product with an inverse scale may overflow.
  Value size = ops.abs("size", ops.element("code", ops.dequantize("stored", grad.value)));
  Value bad = ops.compare("bad", arith::CmpFPredicate::UGE, size, ops.infinity("infinity"));
  writeStatistic("nonfinite", countTrue(bad, "nonfinite"), true);
  writeStatistic("grad_norm", norm(ops.element("whole", unclipped), "norm"), true);

  Value old = ops.element("before", before), now = ops.element("after", after);
  Value change = ops.sub("change", now, old);
  writeStatistic("param_norm", norm(old, "weight"));
  writeStatistic("update_norm", norm(change, "moved"));

  if (storage.inRungs())
    return measureRungs();
  // What f32 arithmetic rounds away is no change; a master keeps the rest.
  if (storage.hasWord("master") || storage.format("param").isF32())
    return;
  Value same = ops.element("same", ops.dequantize("kept", code));
  Value still = ops.compare("still", arith::CmpFPredicate::OEQ, same, old);
  Value moving = ops.compare("moving", arith::CmpFPredicate::ONE, change, ops.f32("none", 0));
  writeStatistic("lost", countTrue(ops.logicalAnd("missed", still, moving), "lost"));
}

//===-- Without a rule ------------------------------------------------------===//

void SetBuilder::writeGradient(bool conditional) {
  size_t before = step.countWrites();
  bool copied = storage.hasWord("copy");
  if (copied)
    writeCopy(gradient);
  else
    writeRounded(grad, gradient, "grad");
  if (copied || !conditional)
    step.moveToAlways(before);
}

// Beyond the largest number a finite one saturates and an infinity stays one,
// where the format has it: the contract of definitions' quantize.
Value SetBuilder::saturated(Value value, FormatAttr format) {
  if (!format.getInf())
    return value;
  NamedOpBuilder ops = this->ops();
  Value most = ops.f32("most", getCodecFacts(format).most), least = ops.neg("least", most);
  Value infinity = ops.infinity("infinity");
  Value infinite = ops.compare("infinite", arith::CmpFPredicate::OEQ, ops.abs("size", value), infinity);
  Value bounded = ops.min("bounded", ops.max("low", value, least), most);
  return ops.select("kept", infinite, value, bounded);
}

// The f32 that an element is divided by.
FailureOr<Value> SetBuilder::addGivenScales(StringRef scales) {
  if (scales.empty())
    return step.scalar("grad_scale");
  if (scales == "tensor")
    return scalar(Access::In, Role::tensor_scale, "grad_scale", step.f32).value;
  unsigned block = 1;
  if (scales != "element" && (scales.getAsInteger(10, block) || !isBlockSize(block)))
    return storage.error("copy") << "--scales=" << scales << " is neither tensor nor element nor a power of two from "
                                 << minBlock << " to " << maxBlock;
  Argument given = list(Access::In, Role::input, "grad_scale", storage.tensors("f32", 1, block));
  NamedOpBuilder ops = this->ops(given, "grad");
  return ops.element("unit", ops.dequantize("old", given.value));
}

// x / scale rounded to a format, as its code or as code times scale.
LogicalResult SetBuilder::quantizeTo(StringRef format, StringRef scales) {
  if (!storage.hasWord("copy"))
    return storage.error() << "--quantize wants a copy in the set: \"grad=f32 copy=f32\"";
  const StorageWord &word = storage.word("copy");
  FormatAttr known = FormatAttr::getNamed(step.f32.getContext(), format);
  bool hasScales = &storage.codec("copy") != &plain, same = storage.formatName("copy") == format;
  if (hasScales && !scales.empty())
    return storage.error("copy") << "--scales=" << scales << " beside a copy that has its own";
  FailureOr<Value> unit = addGivenScales(scales);
  if (failed(unit))
    return failure();
  dequantizeGradient();
  NamedOpBuilder ops = this->ops();
  Value number = ops.div("scaled", ops.element("element", gradient), *unit);
  if (hasScales && !same)
    return storage.error("copy") << "--quantize=" << format << " beside a copy "
                                 << (word.block ? "in blocks of " : "with a scale in ") << storage.formatName("copy")
                                 << ", which takes codes of its own format";
  size_t before = step.countWrites();
  if (hasScales) {
    writeCopy(ops.collect("list", number));
    step.moveToAlways(before);
    return success();
  }
  if (!same || !word.overflow)
    number = saturated(number, known);
  Value list = ops.collect("list", number);
  Argument copy = this->list(Access::Out, Role::copy, "copy", storage.type("copy"));
  OverflowMode overflow = known.getInf() ? OverflowMode::NonFinite : OverflowMode::Saturate;
  if (!same) {
    Value codes =
        ops.quantize("codes", list, TensorsType::get(known.getContext(), known), Round::NearestEven, overflow);
    Value back = ops.element("number", ops.dequantize("back", codes));
    list = ops.collect("result", ops.mul("product", back, *unit));
  }
  writeRounded(copy, list, "copy", same ? std::optional(overflow) : std::nullopt);
  step.moveToAlways(before);
  return success();
}
