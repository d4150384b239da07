// Warnings of what a storage loses: the compiler says where its formats do.
#include "optim/Binding.h"

#include <mutex>

using namespace altgrad::optim;

// Whether this is the first time in the process.
static bool isNew(const std::string &text) {
  static std::mutex one;
  static std::set<std::string> warned;
  std::lock_guard<std::mutex> lock(one);
  return warned.insert(text).second;
}

// A hyper-parameter of a group of the plan, NaN where the set has none.
static double valueOf(const Set &set, const Values &values, size_t group, const std::string &key) {
  for (size_t i = 0; i < size_t(set.hypers.count); ++i)
    if (set.hypers.at[i].key == key)
      return values.hyper(int64_t(group), i);
  return NAN;
}

// What follows from a parameter's type alone is torch's, and nothing is said of
// it.
void Binding::warnOfLimits() {
  if (spec.storage().empty())
    return;
  for (const DevicePlan &part : plans)
    for (size_t i = 0; i < part.cells.size(); ++i) {
      const int32_t index = part.cells[i].set;
      const Set &set = part.program->sets[size_t(index)];
      for (const altgrad_warning_info &limit : part.program->limits) {
        const bool named = is(limit.stream, set.param->key) ? compiler.names("param")
                                                            : compiler.names(limit.stream) || compiler.names("states");
        if (limit.set != index || !named)
          continue;
        double value = valueOf(set, part.table->values, i, limit.hyper);
        bool holds = !*limit.hyper || (limit.above < value && value < limit.below);
        if (holds && isNew(spec.storage() + ": " + limit.text))
          TORCH_WARN("altgrad: storage \"", spec.storage(), "\": ", limit.text);
      }
    }
}
