// Whether an optimizer is as its tables were made for.
#include "optim/Binding.h"

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

RuleParamState *altgrad::optim::stateOf(const Binding::States &states, const Tensor &param) {
  auto found = states.find(param.unsafeGetTensorImpl());
  return found == states.end() ? nullptr : static_cast<RuleParamState *>(found->second.get());
}

bool Binding::isAsBound(const Groups &groups, const States &states) {
  if (!bound || options != boundOptions || scaler != boundScaler || groups.size() != sizes.size())
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
  for (const DevicePlan &part : plans)
    if (part.table->validate() != Change::None)
      return false;
  return !plans.empty() ||
         std::none_of(idle.begin(), idle.end(), [](const Tensor *param) { return param->grad().defined(); });
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
  for (const DevicePlan &part : plans)
    for (const Row &row : part.table->rows()) {
      const RuleParamState *state = stateOf(states, *row.param);
      const Set &set = part.program->sets[size_t(row.set)];
      if (!state || (row.count && !state->tensor(set.count).is_same(*row.count)))
        return false;
      for (size_t i = 0; i < row.kept.size(); ++i)
        if (!state->tensor(set.states.at[i].state).is_same(*row.kept[i]))
          return false;
    }
  return true;
}

// The parameters that had a row, as far as they can have it again without a
// gradient: absent ones cost no other table when their gradients come back.
Binding::Known Binding::boundRows(const States &states) const {
  Known known;
  if (!bound || options != boundOptions || scaler != boundScaler || !holdsRows(states))
    return known;
  for (const DevicePlan &part : plans)
    for (const Row &row : part.table->rows())
      known.insert(row.param->unsafeGetTensorImpl());
  return known;
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
  boundScaler = scaler;
  boundStates.clear();
  for (auto &[param, state] : states)
    boundStates.emplace_back(param, state.get());
  edits = RuleParamState::edits();
  bound = true;
}
