// Makes tables for an optimizer: everything is checked before anything is
// changed.
#include "Binding.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

namespace {

RuleParamState *find(const Binding::States &states, const Tensor &param) {
  auto found = states.find(param.unsafeGetTensorImpl());
  return found == states.end()
             ? nullptr
             : static_cast<RuleParamState *>(found->second.get());
}

const Tensor &valueOf(const RuleParamState &state, const std::string &key,
                      const Place &place) {
  const Tensor &value = state.tensor(key);
  std::string names;
  for (auto &[name, other] : state.tensors())
    names += (names.empty() ? "" : ", ") + name;
  TORCH_CHECK(value.defined(), "altgrad: the state of ", toString(place),
              " has no '", key, "' (there are: ", names, ")");
  return value;
}

bool isAsStored(const Tensor &value, const Tensor &param,
                c10::ScalarType type) {
  return value.scalar_type() == type && hasLayoutOf(param, value);
}

Tensor asStored(const Tensor &value, const Tensor &param,
                c10::ScalarType type) {
  if (isAsStored(value, param, type))
    return value;
  return at::empty_like(param, param.options().dtype(type)).copy_(value);
}

Tensor fresh(const Stream &stream, const Tensor &param) {
  auto options = param.options().dtype(stream.type);
  if (stream.role == ALTGRAD_ROLE_STATE)
    return at::zeros_like(param, options);
  return at::empty_like(param, options).copy_(param);
}

bool hasGradient(const Tensor &param) { return param.grad().defined(); }

c10::ScalarType countType(const Set &set) {
  return set.step->type == ALTGRAD_F32 ? at::kFloat : at::kLong;
}

} // namespace

bool Binding::Marks::isSame(const Marks &other, size_t index) const {
  if (index >= ends.size() || index >= other.ends.size())
    return false;
  auto begin = [&](const Marks &marks) {
    return marks.words.begin() + (index ? marks.ends[index - 1] : 0);
  };
  return std::equal(begin(*this), words.begin() + ends[index], begin(other),
                    other.words.begin() + other.ends[index]);
}

// What all trainable parameters need, so that no gradient that comes or goes
// has the step compiled again.
std::set<std::string> Binding::linesOf(const Groups &groups) const {
  std::set<std::string> lines;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const Tensor &param : groups[g].params())
      if (param.requires_grad() && isSupported(param.scalar_type()))
        lines.insert(compiler.setLine(options[g], param.scalar_type()));
  return lines;
}

void Binding::prepare(const Groups &groups, const std::string &otherwise) {
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i)
      if (groups[g].params()[i].requires_grad())
        checkParameter(groups[g].params()[i], {g, i});
  std::set<std::string> lines = linesOf(groups);
  if (lines.empty())
    lines.insert(compiler.setLine(otherwise, at::kFloat));
  program = compiler.compile(lines);
  findKeys();
}

const std::vector<Scalar> &Binding::hypers() const {
  return program->sets[0].hypers;
}

bool Binding::take(const Groups &groups, States &states) {
  if (isAsBound(groups, states))
    return false;
  bind(groups, states);
  return true;
}

bool Binding::isAsBound(const Groups &groups, const States &states) {
  if (!bound || options != boundOptions || groups.size() != sizes.size())
    return false;
  auto known = params.begin();
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].params().size() != sizes[g])
      return false;
    for (const Tensor &param : groups[g].params())
      if (*known++ != param.unsafeGetTensorImpl())
        return false;
  }
  if (!hasSameStates(states))
    return false;
  if (table)
    return table->look() == Change::None;
  return std::none_of(idle.begin(), idle.end(),
                      [](const Tensor *param) { return hasGradient(*param); });
}

bool Binding::hasSameStates(const States &states) {
  if (states.size() != boundStates.size())
    return false;
  auto known = boundStates.begin();
  for (auto &[param, state] : states) {
    if (known->first != param || known->second != state.get())
      return false;
    ++known;
  }
  // Nearly always: nobody has changed any state.
  if (uint64_t now = RuleParamState::edits(); now != edits) {
    if (!holdsRows(states))
      return false;
    edits = now;
  }
  return true;
}

bool Binding::holdsRows(const States &states) const {
  if (!table)
    return true;
  for (const Row &row : table->rows()) {
    const RuleParamState *state = find(states, *row.param);
    const Keys &own = keys[size_t(row.set)];
    if (!state || (row.count && !state->tensor(own.step).is_same(*row.count)))
      return false;
    for (size_t i = 0; i < row.kept.size(); ++i)
      if (!state->tensor(own.kept[i]).is_same(*row.kept[i]))
        return false;
  }
  return true;
}

// Every parameter that has a gradient, set by set; `idle` gets the others.
std::vector<Binding::Draft> Binding::draft(const Groups &groups) {
  std::vector<Draft> drafts;
  std::vector<std::string> lineOf;
  idle.clear();
  held.clear();
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i) {
      const Tensor &param = groups[g].params()[i];
      TORCH_CHECK(param.defined(), "altgrad: ", toString({g, i}),
                  " is undefined");
      if (!param.grad().defined()) {
        idle.push_back(hold(param));
        continue;
      }
      checkParameter(param, {g, i});
      checkGradient(param, param.grad(), {g, i});
      lineOf.push_back(compiler.setLine(options[g], param.scalar_type()));
      drafts.push_back({param, {g, i}});
    }
  if (drafts.empty())
    return drafts;
  std::set<std::string> lines = linesOf(groups);
  lines.insert(lineOf.begin(), lineOf.end());
  program = compiler.compile(lines);
  findKeys();
  for (size_t i = 0; i < drafts.size(); ++i)
    drafts[i].set =
        int32_t(std::distance(lines.begin(), lines.find(lineOf[i])));
  std::stable_sort(
      drafts.begin(), drafts.end(),
      [](const Draft &a, const Draft &b) { return a.set < b.set; });
  return drafts;
}

void Binding::findKeys() {
  keys.clear();
  for (const Set &set : program->sets) {
    std::set<std::string> all;
    auto keyOf = [&](const std::string &name, const std::string &otherwise) {
      auto found = spec.state_names().find(name);
      const std::string &key =
          found == spec.state_names().end() ? otherwise : found->second;
      TORCH_CHECK(all.insert(key).second, "altgrad: '", name,
                  "' of the rule would be kept as '", key,
                  "', as another state is; see RuleSpec::state_names");
      return key;
    };
    Keys own;
    for (const Stream &stream : set.kept)
      own.kept.push_back(keyOf(stream.key, stream.key));
    if (set.step)
      own.step = keyOf(set.step->key, "step");
    keys.push_back(std::move(own));
  }
}

void Binding::checkStates(const std::vector<Draft> &drafts,
                          const States &states) {
  Ranges written;
  for (const Draft &draft : drafts) {
    const auto &[param, place, index] = draft;
    written.add(param, place, "");
    const RuleParamState *state = find(states, param);
    if (!state)
      continue;
    const Set &set = program->sets[size_t(index)];
    const Keys &own = keys[size_t(index)];
    for (size_t i = 0; i < set.kept.size(); ++i) {
      const Tensor &value = valueOf(*state, own.kept[i], place);
      checkState(value, own.kept[i], set.kept[i].type, param.sizes(), place);
      if (isAsStored(value, param, set.kept[i].type))
        written.add(value, place, own.kept[i]);
    }
    if (!set.step)
      continue;
    const Tensor &count = valueOf(*state, own.step, place);
    checkState(count, own.step, count.scalar_type(), {}, place);
    if (count.scalar_type() == countType(set))
      written.add(count, place, own.step);
  }
  written.close();
  for (const Draft &draft : drafts)
    written.checkApart(draft.param.grad(), draft.place);
}

// Where the handle of a bound tensor lies.
const Tensor *Binding::hold(Tensor tensor) {
  held.push_back(std::move(tensor));
  return &held.back();
}

// Puts into the state what the step wants and is not there as it wants it.
Row Binding::makeRow(const Draft &draft, States &states) {
  const auto &[param, place, index] = draft;
  const Set &set = program->sets[size_t(index)];
  const Keys &own = keys[size_t(index)];
  auto &slot = states[param.unsafeGetTensorImpl()];
  bool begins = !slot;
  if (begins)
    slot = std::make_unique<RuleParamState>();
  auto &state = static_cast<RuleParamState &>(*slot);
  Row row;
  row.param = hold(param);
  row.set = index;
  for (size_t i = 0; i < set.kept.size(); ++i) {
    const Stream &stream = set.kept[i];
    row.kept.push_back(
        hold(begins ? fresh(stream, param)
                    : asStored(state.tensor(own.kept[i]), param, stream.type)));
    state.tensor(own.kept[i], *row.kept.back());
  }
  if (set.step) {
    row.count = hold(begins ? at::zeros({}, countType(set))
                            : state.tensor(own.step).to(countType(set)));
    state.count(own.step).tensor(own.step, *row.count);
  }
  return row;
}

void Binding::bind(const Groups &groups, States &states) {
  bound = false;
  table.reset();
  cells.clear();
  std::vector<Draft> drafts = draft(groups);
  checkStates(drafts, states);
  // Nothing is refused from here on.
  auto written = std::make_shared<Ranges>();
  std::vector<Row> rows;
  std::vector<int32_t> sets;
  for (const Draft &draft : drafts) {
    if (rows.empty() || draft.set != sets.back() ||
        draft.place.group != cells.back().group) {
      cells.push_back({draft.place.group, nullptr, nullptr});
      sets.push_back(draft.set);
    }
    rows.push_back(makeRow(draft, states));
    Row &row = rows.back();
    row.group = int64_t(cells.size()) - 1;
    const Keys &own = keys[size_t(row.set)];
    written->add(*row.param, draft.place, "");
    for (size_t i = 0; i < row.kept.size(); ++i)
      written->add(*row.kept[i], draft.place, own.kept[i]);
    if (row.count)
      written->add(*row.count, draft.place, own.step);
  }
  written->close();
  if (!rows.empty()) {
    table = std::make_unique<TensorTable>(program, std::move(rows), sets, idle,
                                          std::move(written));
    for (size_t i = 0; i < cells.size(); ++i) {
      cells[i].hypers = &program->sets[size_t(sets[i])].hypers;
      cells[i].values = table->hypers(int64_t(i));
    }
    TORCH_INTERNAL_ASSERT(table->look() == Change::None);
  }
  remember(groups, states);
}

void Binding::remember(const Groups &groups, const States &states) {
  params.clear();
  sizes.clear();
  for (const auto &group : groups) {
    sizes.push_back(group.params().size());
    for (const Tensor &param : group.params())
      params.push_back(param.unsafeGetTensorImpl());
  }
  boundOptions = options;
  boundStates.clear();
  for (auto &[param, state] : states)
    boundStates.emplace_back(param, state.get());
  edits = RuleParamState::edits();
  bound = true;
}
