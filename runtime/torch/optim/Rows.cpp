// The rows of a step from an optimizer's states: checked first, then made as a
// whole.
#include "optim/Binding.h"
#include "optim/States.h"
#include "tensors/Errors.h"
#include "tensors/Lasting.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

namespace {

const Tensor &valueOf(const RuleParamState &state, const std::string &key, const ParamIndex &place) {
  const Tensor &value = state.tensor(key);
  std::string names;
  for (auto &[name, other] : state.tensors())
    names += (names.empty() ? "" : ", ") + name;
  ALTGRAD_CHECK(value.defined(), "altgrad: the state of ", toString(place), " has no '", key, "' (there are: ", names,
                ")");
  return value;
}

// Whether a step has made states, or a file: an input alone is put there before.
bool hasBegun(const RuleParamState &state, const Set &set) {
  const c10::ArrayRef<Stream> all = entries(set.states);
  auto isInput = [&](const auto &one) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Stream &of) { return of.role == ALTGRAD_ROLE_INPUT && one.first == of.state; });
  };
  return state.tensors().empty() || !std::all_of(state.tensors().begin(), state.tensors().end(), isInput);
}

// Whether a count can be raised where it lies.
bool isCount(const Tensor &count, const Tensor &param, c10::ScalarType type) {
  return count.scalar_type() == type && count.device() == param.device();
}

c10::ScalarType countType(const Set &set) { return set.step->type == ALTGRAD_F32 ? at::kFloat : at::kLong; }

} // namespace

void Binding::checkStates(const DevicePlan &part, const Drafts &drafts, const States &states, Memory &memory) const {
  for (const Draft &draft : drafts) {
    const auto &[param, dense, place, matrices, line, tag, more, index] = draft;
    memory.add(param, place, "");
    const Set &set = part.program->sets[size_t(index)];
    checkShard(*part.program, draft);
    checkFit(*part.program, index, dense, matrices ? &*matrices : nullptr, place);
    const RuleParamState *state = stateOf(states, param);
    if (!state)
      continue;
    auto keeps = [&](const std::string &key) {
      const c10::ArrayRef<Stream> all = entries(set.states);
      return std::any_of(all.begin(), all.end(), [&](const Stream &of) { return key == of.state; });
    };
    const bool begun = hasBegun(*state, set) && !isEntry; // which may have states of its own
    for (size_t i = 0; i < entries(set.states).size(); ++i) {
      const Stream &stream = set.states.at[i];
      if (!begun && !state->tensor(stream.state).defined())
        continue;
      const Tensor &value = valueOf(*state, stream.state, place);
      const std::string scales = std::string(stream.state) + "_scale";
      const bool scaled = !keeps(scales) && state->tensor(scales).defined();
      checkStoredState(value, *part.program, index, i, scaled, dense, matrices ? &*matrices : nullptr, place);
      if (isAsStored(value, dense, stream))
        memory.add(value, place, stream.state);
    }
    // The parameter alone would be another number.
    ALTGRAD_CHECK(keeps("remainder") || !state->tensor("remainder").defined(), "altgrad: ", toString(place),
                  " has a 'remainder', and the "
                  "storage has none: make the optimizer with the storage that "
                  "its states have");
    if (!set.step || !begun)
      continue;
    const Tensor &count = valueOf(*state, set.count, place);
    checkCount(count, set.count, place);
    if (isCount(count, param, countType(set)))
      memory.add(count, place, set.count);
  }
}

// Where the handle of a bound tensor lies.
const Tensor *Binding::hold(Tensor tensor) {
  held.push_back(std::move(tensor));
  return &held.back();
}

// A row for each of the matrices of a parameter that are apart, or one.
static std::vector<Row> inPieces(const Row &whole) {
  if (!whole.matrices || !whole.matrices->apart || !whole.param->numel())
    return {whole};
  std::vector<Row> rows(size_t(whole.matrices->count), whole);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].piece = int64_t(i);
  return rows;
}

// Makes what the step wants and the state has not as it wants it; `states` stay.
std::vector<Row> Binding::makeRow(const DevicePlan &part, const Draft &draft, const States &states) {
  const auto &[param, dense, place, matrices, line, tag, more, index] = draft;
  const Set &set = part.program->sets[size_t(index)];
  const RuleParamState *state = stateOf(states, param);
  const bool begun = state && hasBegun(*state, set), counted = set.step && state && state->tensor(set.count).defined();
  Row row;
  row.param = hold(param);
  if (!dense.is_same(param))
    row.dense = hold(dense);
  row.set = index;
  row.place = tag;
  row.matrices = matrices;
  row.more = more;
  if (const Shard *shard = shardOf(param)) {
    row.whole = shard->sizes;
    row.offset = shard->offset;
  }
  for (size_t i = 0; i < entries(set.states).size(); ++i) {
    const Stream &stream = set.states.at[i];
    const Tensor given = state ? state->tensor(stream.state) : Tensor();
    row.kept.push_back(hold(given.defined()
                                ? asStored(given, dense, stream)
                                : createState(*part.program, index, i, dense, matrices ? &*matrices : nullptr)));
  }
  if (!begun)
    beginCopy(set, row.kept, dense, compiler.copy());
  if (set.step) {
    auto as = at::TensorOptions().device(param.device()).dtype(countType(set));
    row.count = hold(counted && (begun || isEntry) ? state->tensor(set.count).to(as) : at::zeros({}, as));
  }
  return inPieces(row);
}

std::vector<Row> Binding::makeRows(DevicePlan &part, const Drafts &drafts, const States &states) {
  Lasting lasting;
  std::vector<Row> rows;
  for (const Draft &draft : drafts) {
    std::vector<Cell> &cells = part.cells;
    if (cells.empty() || draft.set != cells.back().set || draft.place.group != cells.back().group)
      cells.push_back({draft.place.group, draft.set});
    for (Row &row : makeRow(part, draft, states)) {
      row.group = int64_t(cells.size()) - 1;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Puts what was made into the states: after all of it was made, or never.
void Binding::commit(const DevicePlan &part, const std::vector<Row> &rows, States &states) {
  for (const Row &row : rows) {
    const Set &set = part.program->sets[size_t(row.set)];
    auto &slot = states[row.param->unsafeGetTensorImpl()];
    if (!slot)
      slot = std::make_unique<RuleParamState>();
    auto &state = static_cast<RuleParamState &>(*slot);
    for (size_t i = 0; i < row.kept.size(); ++i)
      state.tensor(set.states.at[i].state, *row.kept[i]);
    if (row.count)
      state.count(set.count).tensor(set.count, *row.count);
  }
}
