// Asks the core which matrices a parameter holds.
#include "optim/Matrices.h"
#include "tensors/Errors.h"
#include "tensors/Lasting.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

using namespace altgrad::optim;
using at::Tensor;

static bool isIn(const std::string &words, const std::string &word) {
  return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

// What is no number is -1.
static std::vector<int64_t> numbersIn(const std::string &text) {
  std::vector<int64_t> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '/');) {
    char *end = nullptr;
    numbers.push_back(strtoll(part.c_str(), &end, 10));
    if (*end || part.empty())
      numbers.back() = -1;
  }
  if (numbers.empty())
    numbers.push_back(-1);
  return numbers;
}

void MatrixOptions::read(const std::string &word) {
  if (word.rfind("rule=", 0) == 0)
    return;
  if (!whole && word.rfind("split=", 0) == 0)
    split = numbersIn(spelled = word.substr(strlen("split=")));
  else if (!whole && (word == "flatten=true" || word == "flatten=false"))
    flat = word == "flatten=true";
  else if (!whole && ofRows && word == "red_dim=by_shape")
    turns = 1;
  else
    options += (options.empty() ? "" : ",") + word;
}

static std::string ruleIn(const std::string &words) {
  const size_t begin = ("," + words).find(",rule=");
  return begin == std::string::npos ? "" : words.substr(begin + 5, words.find(',', begin) - begin - 5);
}

MatrixOptions::MatrixOptions(const std::string &given, const std::string &kind)
    : whole(kind.empty()), ofRows(kind == "rows"), rule_(ruleIn(given)) {
  ALTGRAD_CHECK(whole || ofRows || kind == "units", "altgrad: matrices is '", kind, "', neither 'units' nor 'rows'");
  ALTGRAD_CHECK(rule_.find_first_of(" {}") == std::string::npos, "altgrad: the option 'rule=", rule_,
                "' has to name a rule, as rule=adamw does");
  std::istringstream words(given);
  whole |= !rule_.empty();
  for (std::string word; std::getline(words, word, ',');)
    read(word);
  if (isIn(options, "equal=rows"))
    unturned = "equal=rows";
}

Matrices MatrixOptions::of(const Tensor &param, const ParamIndex &place) const {
  if (whole)
    return {};
  altgrad_core_matrix_options native{};
  native.split = split.data();
  native.count = int64_t(split.size());
  native.spelled = split.empty() ? nullptr : spelled.c_str();
  native.equal = split.size() == 1;
  native.flat = flat;
  native.apart = ofRows || isIn(options, "equal=rows");
  native.turns = turns;
  native.unturned = unturned.empty() ? nullptr : unturned.c_str();
  native.otherwise = "a group with the option rule=adamw";
  altgrad_core_matrices found{};
  if (altgrad_core_find_matrices(&native, param.dim(), param.sizes().data(), &found))
    C10_THROW_ERROR(ValueError, "altgrad: " + toString(place) + " " + altgrad_core_error());
  return found;
}

std::string MatrixOptions::optionsFor(const Matrices &matrices, bool units) const {
  std::string words = options;
  auto add = [&](const char *word) {
    if (!isIn(words, word))
      words += (words.empty() ? "" : ",") + std::string(word);
  };
  if (units && !whole && !ofRows && !isIn(options, "equal=rows"))
    add("over=unit");
  if (matrices && matrices->turned && !isIn(options, "scale=match_rms")) // which is the same
    add("shape=transposed");
  return words;
}

int64_t MatrixOptions::unitOf(const Matrices &matrices) const {
  if (!matrices)
    return 0;
  return ofRows || isIn(options, "equal=rows") ? matrices->columns : matrices->unit;
}

Tensor altgrad::optim::denseOf(const Tensor &param, const Matrices &matrices) {
  std::vector<int64_t> strides(size_t(param.dim()));
  const bool fits = !matrices || isTrue(altgrad_core_matrix_layout(&*matrices, param.dim(), param.sizes().data(),
                                                                   param.strides().data(), strides.data()));
  if (fits && param.is_non_overlapping_and_dense() && !param.is_neg())
    return param;
  Lasting lasting;
  Tensor copy = fits ? at::empty_like(param) : at::empty_strided(param.sizes(), strides, param.options());
  return copy.copy_(param);
}
