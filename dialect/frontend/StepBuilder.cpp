// Arguments, operations and writes ==> a step, and its text.
#include "dialect/frontend/StepBuilder.h"
#include "dialect/frontend/Request.h"

using namespace mlir;
using namespace altgrad;

//===-- Names ---------------------------------------------------------------===//

Location NamedOpBuilder::at(const Twine &name) const { return NameLoc::get(builder.getStringAttr(prefix + name), loc); }

Location NamedOpBuilder::at(ArrayRef<std::string> names) const {
  SmallVector<StringRef> words(names.begin(), names.end());
  return FusedLoc::get({loc}, builder.getStrArrayAttr(words), builder.getContext());
}

std::string altgrad::printStep(StepOp step) {
  std::string text;
  llvm::raw_string_ostream out(text);
  step->print(out, OpPrintingFlags().printNameLocAsPrefix());
  return text + "\n";
}

//===-- The step ------------------------------------------------------------===//

StepBuilder::StepBuilder(MLIRContext &context, Location loc) : loc(loc), builder(&context) {
  f32 = builder.getF32Type(), f64 = builder.getF64Type(), i64 = builder.getI64Type();
  OperationState state(loc, StepOp::getOperationName());
  body = &state.addRegion()->emplaceBlock();
  step = cast<StepOp>(Operation::create(state));
  builder.setInsertionPointToEnd(body);
}

void StepBuilder::reserve(ArrayRef<StringRef> names) {
  for (StringRef name : names)
    usedNames.insert(name);
}

std::string StepBuilder::makeUniqueName(StringRef wanted) {
  std::string name = wanted.str();
  while (!usedNames.insert(name).second)
    name += "_";
  return name;
}

Value StepBuilder::argument(Access access, Role role, const Argument &called, Type type, Scope scope, int64_t set,
                            Location loc, FloatAttr fallback) {
  signature.push_back(
      ArgumentAttr::get(builder.getContext(), access, role, called.name, called.key, scope, set, fallback));
  return body->addArgument(type, NameLoc::get(builder.getStringAttr(called.name), loc));
}

Value StepBuilder::scalar(Access access, Role role, StringRef name, Type type) {
  return scalars[name] = argument(access, role, {{}, name.str(), name.str()}, type, Scope::Step, -1, loc);
}

std::pair<Argument, bool> StepBuilder::getOrAddScalar(StringRef rule, Access access, Role role, StringRef key,
                                                      Type type, Location loc, FloatAttr fallback) {
  auto [known, isNew] = ofRules.try_emplace({rule.str(), key.str()});
  if (isNew) {
    Argument names{{}, makeUniqueName(key), key.str()};
    names.value = argument(access, role, names, type, Scope::Step, -1, loc, fallback);
    known->second = names;
  }
  return {known->second, isNew};
}

// The count is the step's own: a rule may have none, and an f32 stops at 2^24.
void StepBuilder::addSeed(bool always) {
  scalar(Access::In, Role::random, "seed", i64);
  Value draws = scalar(Access::InOut, Role::random, "draws", i64);
  NamedOpBuilder ops = this->ops("seed.");
  Value one = ops.i64("one", 1);
  count = ops.make<arith::AddIOp>("next", draws, one);
  (always ? this->always : writes).push_back({count, draws});
}

void StepBuilder::writeAlways(Value value, Value target) {
  auto *known = llvm::find_if(always, [&](const auto &write) { return write.second == target; });
  if (known == always.end())
    always.push_back({value, target});
  else
    known->first = value;
}

void StepBuilder::moveToAlways(size_t from) {
  always.append(writes.begin() + from, writes.end());
  writes.truncate(from);
}

OwningOpRef<StepOp> StepBuilder::finish(const Twine &name) {
  if (!condition)
    moveToAlways(0);
  SmallVector<Value> lists[4];
  for (auto [value, target] : always)
    lists[0].push_back(value), lists[1].push_back(target);
  for (auto [value, target] : writes)
    lists[2].push_back(value), lists[3].push_back(target);
  CommitOp::create(builder, loc, condition, lists[0], lists[1], lists[2], lists[3]);
  step->setSymName(name.str());
  step->setSignatureAttr(builder.getArrayAttr(signature));
  return std::move(step);
}
