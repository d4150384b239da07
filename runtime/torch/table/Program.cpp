// Compiles a step, and takes the core's description of it.
#include "table/Program.h"
#include "core/altgrad_core.h"
#include "tensors/Errors.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

using namespace altgrad::optim;
using c10::ScalarType;

std::string altgrad::optim::formatOf(ScalarType type) {
  const char *format = altgrad_core_format(int32_t(type));
  ALTGRAD_CHECK_TYPE(format, "altgrad: no stream is stored as ", type);
  return format;
}

ScalarType altgrad::optim::typeOf(const Scalar &scalar) {
  constexpr ScalarType types[] = {ScalarType::Double, ScalarType::Long, ScalarType::Float, ScalarType::Int,
                                  ScalarType::Bool};
  return types[scalar.type];
}

bool Stop::isAll(int32_t reduction) const {
  return !words.empty() &&
         std::all_of(words.begin(), words.end(), [&](auto &word) { return word.reduction == reduction; });
}

Program::Program(const altgrad_core_program *of)
    : description(of, altgrad_core_program_free), bundle(description, of->bundle) {
  sets = {of->sets, size_t(of->set_count)};
  singles = entries(of->singles);
  partials = {of->partials, size_t(of->partial_count)};
  for (size_t i = 0; i < partials.size(); ++i) {
    if (stops.empty() || stops.back().phase != partials[i].phase)
      stops.push_back({partials[i].phase, {}});
    stops.back().partials.push_back(int64_t(i));
  }
  Stop verdicts{0, {}};
  for (const altgrad_core_exchange &exchange : c10::ArrayRef(of->exchanges, size_t(of->exchange_count))) {
    Stop stop{exchange.phase, {exchange.words, exchange.words + exchange.count}};
    if (!stop.isAll(ALTGRAD_AND))
      stops.push_back(std::move(stop));
    else
      verdicts.phase = stop.phase, verdicts.words.insert(verdicts.words.end(), stop.words.begin(), stop.words.end());
  }
  if (!verdicts.words.empty())
    stops.push_back(std::move(verdicts));
  std::stable_sort(stops.begin(), stops.end(), [](const Stop &a, const Stop &b) {
    return std::pair(a.phase, a.isAll(ALTGRAD_MAX)) < std::pair(b.phase, b.isAll(ALTGRAD_MAX));
  });
  limits = {of->limits, size_t(of->limit_count)};
}

std::shared_ptr<const Program> altgrad::optim::compileProgram(altgrad_core_request of,
                                                              const std::vector<std::string> &sets) {
  std::vector<const char *> lines;
  for (const std::string &line : sets)
    lines.push_back(line.c_str());
  of.sets = lines.data();
  of.count = int64_t(lines.size());
  const altgrad_core_program *program = nullptr;
  checkTable(altgrad_core_compile(&of, &program));
  return std::make_shared<Program>(program);
}
