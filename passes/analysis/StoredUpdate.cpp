// The seam between a rule and what a step keeps of its results.
#include "passes/analysis/StoredUpdate.h"

#include "dialect/Codecs.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

using namespace mlir;
using namespace altgrad;

static const double nothing = std::nan("");

StoredUpdate::StoredUpdate(StepOp step, UpdateOp update, RuleOp rule, const llvm::StringMap<double> &hypers)
    : step(step), update(update), rule(rule), given(hypers) {
  auto options = llvm::to_vector(update.getOptions().getAsValueRange<StringAttr>());
  states = rule.getStoredStates(options);
  this->hypers = rule.getByRole(Role::hyper);
  decided = rule.decide(options);
  paths.push_back(getPath(update.getParam(), update.getNewParam()));
  unsigned list = 0;
  for (BlockArgument state : states)
    if (rule.isScalarState(state)) // which nothing rounds
      paths.emplace_back();
    else
      paths.push_back(getPath(update.getStates()[list], update.getNewStates()[list])), ++list;
}

// What `value` is computed by behind `end`, each operation after what it depends on.
static llvm::SetVector<Operation *> getSlice(Value value, Operation *end) {
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options([&](Operation *op) { return op != end; });
  options.inclusive = options.omitBlockArguments = true;
  if (value.getDefiningOp())
    (void)getBackwardSlice(value, &slice, options);
  return slice;
}

StoredUpdate::Path StoredUpdate::getPath(Value operand, Value result) {
  Path path{operand, result, {}, {}, {}};
  llvm::SetVector<Operation *> loads = getSlice(operand, update), stores;
  DenseSet<Value> read{operand};
  for (Operation *op : loads)
    read.insert_range(op->getOperands());
  for (auto [value, target, condition] : step.getCommit().writes()) {
    llvm::SetVector<Operation *> slice = getSlice(value, update);
    bool isStored =
        value == result || llvm::any_of(result.getUsers(), [&](Operation *op) { return slice.contains(op); });
    if (!read.contains(target) || !isa<TensorsType>(target.getType()) || !isStored)
      continue;
    path.written.emplace_back(value, cast<BlockArgument>(target));
    stores.insert_range(slice);
  }
  path.loads = loads.takeVector();
  path.stores = stores.takeVector();
  return path;
}

LogicalResult StoredUpdate::read() {
  ScalarInterpreter numbers;
  for (BlockArgument argument : step.getBody().getArguments())
    if (step.getRole(argument) == Role::hyper) {
      auto value = cast_or_null<FloatAttr>(step.getDefault(argument));
      auto it = given.find(step.getKey(argument));
      if (it != given.end())
        numbers.set(argument, it->second);
      else if (value)
        numbers.set(argument, value.getValueAsDouble());
    }
  numbers.run(step.getBody().front());
  for (auto [argument, value] : llvm::zip(hypers, update.getHypers())) {
    std::optional<double> number = numbers.of(value);
    if (!number)
      return emitError(argument.getLoc()) << "hyper-parameter '" << rule.getName(argument)
                                          << "' has no default; say --analyze=" << rule.getName(argument) << "=VALUE";
    values[argument] = *number;
  }
  return success();
}

size_t StoredUpdate::cost() const {
  return rule.getBody().front().getOperations().size() * std::max<size_t>(1, states.size() * states.size());
}

ScalarInterpreter StoredUpdate::at(const Point &point, bool exact) const {
  ScalarInterpreter numbers(exact);
  for (Role role : {Role::param, Role::value})
    for (BlockArgument argument : rule.getByRole(role))
      numbers.set(argument, point.param);
  numbers.set(rule.getByRole(Role::grad)[0], point.grad);
  for (BlockArgument input : rule.getByRole(Role::input)) // of about the gradient's size
    numbers.set(input, point.grad);
  for (BlockArgument state : rule.getByRole(Role::state))
    numbers.set(state, 0); // one that is not stored is not read
  for (auto [state, value] : llvm::zip(states, point.states))
    state.getType().isInteger(64) ? numbers.setInteger(state, int64_t(value)) : numbers.set(state, value);
  for (auto [argument, value] : values)
    numbers.set(argument, value);
  for (BlockArgument argument : rule.getByRole(Role::step))
    numbers.setInteger(argument, point.step);
  for (auto [value, choice] : decided)
    numbers.setInteger(value, choice);
  numbers.run(rule.getBody().front());
  return numbers;
}

SmallVector<double> StoredUpdate::apply(const Point &point, bool exact) const {
  ScalarInterpreter numbers = at(point, exact);
  YieldOp yield = rule.getYield();
  SmallVector<double> results{numbers.of(yield.getParam()).value_or(nothing)};
  for (auto [state, value] : llvm::zip(rule.getByRole(Role::state), yield.getStates()))
    if (llvm::is_contained(states, state))
      results.push_back(numbers.of(value).value_or(nothing));
  return results;
}

double StoredUpdate::roundTrip(unsigned index, double number, double largest, uint32_t draw) const {
  const Path &path = paths[index];
  ScalarInterpreter storing, loading;
  storing.largest = largest;
  storing.draw = draw;
  for (BlockArgument argument : step.getBody().getArguments())
    if (step.getRole(argument) == Role::random)
      storing.setInteger(argument, 0);
  if (path.written.empty())
    return nothing;
  storing.set(path.result, double(float(number)));
  storing.run(llvm::make_pointee_range(path.stores));
  for (auto [value, argument] : path.written)
    if (std::optional<double> code = storing.of(value))
      loading.set(argument, *code);
  loading.run(llvm::make_pointee_range(path.loads));
  return loading.of(path.operand).value_or(nothing);
}

bool StoredUpdate::isUnchanged(unsigned index, double before, double number, double largest) const {
  return llvm::all_of(ArrayRef<uint32_t>{0, 0xffff},
                      [&](uint32_t draw) { return roundTrip(index, number, largest, draw) == before; });
}

// Where a state is linear in itself and settles, its steady value; of a sum or a
// maximum what one step makes. A few rounds for those that depend on others. A number of a tensor or of the step is its
// first value.
const Point &StoredUpdate::steady(double grad) const {
  auto [known, isNew] = settled.try_emplace(grad);
  Point &point = known->second;
  if (!isNew)
    return point;
  point.grad = grad;
  point.states.assign(states.size(), 0);
  for (auto [state, value] : llvm::zip(states, point.states))
    if (auto first = cast_or_null<FloatAttr>(rule.getDefault(state)))
      value = first.getValueAsDouble();
  for (int round = 0; round < 4; ++round) {
    SmallVector<double> before = point.states;
    for (unsigned i = 0; i < states.size(); ++i) {
      if (Scope scope = rule.getScope(states[i]); scope == Scope::Tensor || scope == Scope::Step)
        continue;
      auto from = [&](double before) {
        Point other = point;
        other.states[i] = before;
        return apply(other, /*exact=*/true)[1 + i];
      };
      double start = from(0), slope = from(1) - start;
      bool linear = std::fabs(from(2) - start - 2 * slope) < 1e-9;
      bool settles = linear && slope >= 0 && slope < 1 - 1e-13;
      point.states[i] = settles ? start / (1 - slope) : start;
    }
    if (before == point.states)
      break;
  }
  return point;
}

//===-- What it is called ---------------------------------------------------===//

StringRef StoredUpdate::getName(unsigned index) const {
  return rule.getName(index ? states[index - 1] : rule.getByRole(Role::param)[0]);
}

Location StoredUpdate::getLocation(unsigned index) const {
  return index ? states[index - 1].getLoc() : rule.getByRole(Role::param)[0].getLoc();
}

BlockArgument StoredUpdate::getStream(unsigned index) const {
  for (auto [value, argument] : paths[index].written)
    if (step.getRole(argument) != Role::block_scale)
      return argument;
  return {};
}

unsigned StoredUpdate::set() const {
  BlockArgument stream = getStream(0);
  return stream ? step.getSet(stream).value_or(0) : 0;
}

std::string StoredUpdate::getKey(unsigned index) const {
  BlockArgument stream = getStream(index);
  return stream ? step.getKey(stream).str() : getName(index).str();
}

std::string StoredUpdate::getKey(BlockArgument hyper) const {
  size_t position = llvm::find(hypers, hyper) - hypers.begin();
  auto argument = dyn_cast<BlockArgument>(Value(update.getHypers()[position]));
  return argument ? step.getKey(argument).str() : "";
}

unsigned StoredUpdate::getBlock(unsigned index) const {
  unsigned block = 1;
  for (auto [value, argument] : paths[index].written)
    block = std::max<unsigned>(block, cast<TensorsType>(argument.getType()).getBlock().getLength());
  return block;
}

std::string StoredUpdate::getFormat(unsigned index) const {
  BlockArgument stream = getStream(index);
  if (!stream)
    return "";
  FormatAttr format = cast<TensorsType>(stream.getType()).getFormat();
  std::string text = format.getKnownName().str();
  if (text.empty())
    llvm::raw_string_ostream(text) << format;
  unsigned block = getBlock(index);
  if (block == 1)
    return text;
  std::string scales = getScaleFormat(index);
  return text + ":" + std::to_string(block) + (scales == "f32" ? "" : ":" + scales);
}

std::string StoredUpdate::getScaleFormat(unsigned index) const {
  for (auto [value, argument] : paths[index].written)
    if (auto type = cast<TensorsType>(argument.getType()); type.isShared())
      return type.getFormat().getKnownName().str();
  return "";
}

StringRef StoredUpdate::getCompanding(unsigned index) const {
  for (Operation *op : paths[index].stores)
    if (auto quantize = dyn_cast<QuantizeOp>(op); quantize && quantize.getCompanding())
      return stringifyCompanding(*quantize.getCompanding());
  return "";
}

bool StoredUpdate::isNearestOnly(unsigned index) const {
  BlockArgument stream = getStream(index);
  return stream && getCodecFacts(cast<TensorsType>(stream.getType()).getFormat()).nearestOnly;
}

std::optional<Round> StoredUpdate::getRounding(unsigned index) const {
  for (auto [value, argument] : paths[index].written)
    if (auto quantize = value.getDefiningOp<QuantizeOp>(); quantize && argument == getStream(index))
      return quantize.getRounding();
  for (Operation *op : paths[index].stores)
    if (auto quantize = dyn_cast<QuantizeOp>(op)) {
      TensorsType type = quantize.getTensors().getType();
      // Scales of blocks are quantized, too.
      if (!type.getFormat().isF32() && !type.isShared())
        return quantize.getRounding();
    }
  return std::nullopt;
}
