// Puts a request into altgrad-opt's words, and has it compiled.
#include "Program.h"
#include "TableImpl.h"
#include "altgrad/products.h"
#include "altgrad_request.h"

#include <cctype>
#include <cstring>
#include <memory>
#include <sstream>

using namespace altgrad::core;

namespace {

using BundlePtr = std::unique_ptr<altgrad_bundle, void (*)(altgrad_bundle *)>;

const char *given(const char *text) { return text && *text ? text : nullptr; }

// An option on each line.
std::string optionsOf(const altgrad_core_request &of) {
  auto flag = [](int32_t is) { return is ? "" : nullptr; };
  const bool ofNorm = of.clip && !strcmp(of.clip, "norm");
  std::vector<std::pair<const char *, const char *>> options{
      {"--target", of.host ? "x86-64-v3,x86-64-v4" : "sm_80,sm_90"}, // as stock bundles are built
      {"--clip", ofNorm ? "" : given(of.clip)},
      {"--profile", given(of.numerics)},
      {"--loss-scaler", given(of.loss_scaler)},
      {"--rule-path", given(of.rule_path)},
      {"--entry", given(of.entry)},
      {"--scaler", flag(of.scaler)},
      {"--statistics", flag(of.statistics)},
      {"--exchange", flag(of.exchange)},
      {"--expect-remote-products", flag(of.exchange && of.products)}};
  for (int64_t i = 0; i < of.count; ++i)
    options.emplace_back("--set", of.sets[i]);
  std::string lines;
  for (const auto &[option, value] : options) {
    if (value && strchr(value, '\n'))
      throw Refusal(ALTGRAD_INVALID, "\"" + std::string(value) + "\" has more than one line");
    if (value)
      lines += std::string(option) + (*value ? "=" : "") + value + "\n";
  }
  return lines + (of.flags ? of.flags : "");
}

// The compiler reads the text of rules from its input, which its diagnostics name.
std::string withOrigin(const char *words, const std::string &origin) {
  std::istringstream lines(words);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    for (const std::string input : {"-:", "<stdin>:"})
      if (line.compare(0, input.size(), input) == 0 && isdigit(static_cast<unsigned char>(line[input.size()])))
        line.replace(0, input.size() - 1, origin);
    all += (all.empty() ? "" : "\n") + line;
  }
  return all;
}

BundlePtr compile(const altgrad_core_request &of, const std::string &options) {
  altgrad_bundle *bundle = nullptr;
  const altgrad_status status = altgrad_compile(given(of.text), of.size, options.c_str(), given(of.compiler), &bundle);
  if (status && given(of.origin))
    throw Refusal(status, withOrigin(altgrad_last_error(), of.origin));
  check(status);
  return {bundle, altgrad_bundle_free};
}

bool wantsOwnProducts(const altgrad_core_request &of, altgrad_bundle *bundle) {
  const altgrad::ProductsBy by = altgrad::productsBy();
  return !of.host && (by == altgrad::ProductsBy::Own || (of.alone && by == altgrad::ProductsBy::Auto)) &&
         multiplies(bundle);
}

// Numbers of the step as a whole that nobody has asked for would be whatever lies in memory.
void checkSingles(const altgrad_core_request &of, altgrad_bundle *bundle) {
  constexpr uint32_t own = 1u << ALTGRAD_ROLE_MAX_NORM | 1u << ALTGRAD_ROLE_RANDOM | 1u << ALTGRAD_ROLE_NORM |
                           1u << ALTGRAD_ROLE_HISTORY | 1u << ALTGRAD_ROLE_STATISTIC | 1u << ALTGRAD_ROLE_STATE |
                           1u << ALTGRAD_ROLE_HYPER,
                     ofScaler = 1u << ALTGRAD_ROLE_SCALE | 1u << ALTGRAD_ROLE_INV_SCALE | 1u << ALTGRAD_ROLE_SCALER |
                                1u << ALTGRAD_ROLE_FLAG;
  const uint32_t known = own | (of.scaler || given(of.loss_scaler) || given(of.flags) ? ofScaler : 0);
  for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i) {
    const auto single = describe<altgrad_scalar_info>(altgrad_scalar_at, bundle, i);
    if (single.scope == ALTGRAD_PER_STEP && !(known >> single.role & 1))
      throw Refusal(ALTGRAD_BROKEN, std::string("nobody gives the step its '") + single.name + "'");
  }
}

} // namespace

altgrad_status altgrad_core_compile(const altgrad_core_request *of, const altgrad_core_program **out) {
  return guarded([&] {
    const std::string options = optionsOf(*of);
    BundlePtr bundle = compile(*of, options);
    if (wantsOwnProducts(*of, bundle.get()))
      bundle = compile(*of, options + "\n--own-products");
    checkSingles(*of, bundle.get());
    *out = new Program(bundle.get(), wordsIn(of->keys ? of->keys : ""));
    (void)bundle.release(); // it is the program's
  });
}
