// Compiles a step, and takes the core's description of it.
#include "table/Program.h"
#include "core/table.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

using namespace altgrad::optim;
using c10::ScalarType;

std::string altgrad::optim::formatOf(ScalarType type) {
  const char *format = altgrad_table_format(int32_t(type));
  TORCH_CHECK_TYPE(format, "altgrad: no stream is stored as ", type);
  return format;
}

ScalarType altgrad::optim::typeOf(const Scalar &scalar) {
  constexpr ScalarType types[] = {ScalarType::Double, ScalarType::Long, ScalarType::Float, ScalarType::Int,
                                  ScalarType::Bool};
  return types[scalar.type];
}

bool Stop::isAll(int32_t reduction) const {
  return std::all_of(words.begin(), words.end(), [&](auto &word) { return word.reduction == reduction; });
}

Program::Program(std::shared_ptr<altgrad_bundle> given) : bundle(std::move(given)) {
  const altgrad_core_program *of = nullptr;
  checkTable(altgrad_core_describe(bundle.get(), &of));
  described.reset(of, altgrad_core_program_free);
  sets = {of->sets, size_t(of->set_count)};
  singles = entries(of->singles);
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
  partials = {of->partials, size_t(of->partial_count)};
  limits = {of->limits, size_t(of->limit_count)};
}

const char *altgrad::optim::targetsFor(bool onHost) {
  return onHost ? "--target=x86-64-v3,x86-64-v4" : "--target=sm_80,sm_90";
}

std::shared_ptr<const Program> altgrad::optim::compileProgram(const std::string &options, const std::string &text,
                                                              const std::string &compiler) {
  altgrad_bundle *bundle = nullptr;
  check(altgrad_compile(text.empty() ? nullptr : text.data(), text.size(), options.c_str(),
                        compiler.empty() ? nullptr : compiler.c_str(), &bundle));
  return std::make_shared<Program>(std::shared_ptr<altgrad_bundle>(bundle, altgrad_bundle_free));
}
