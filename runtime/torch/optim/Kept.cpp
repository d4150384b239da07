// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#include "optim/Kept.h"
#include "ops/GradientStep.h"
#include "tensors/Checks.h"
#include "tensors/Where.h"

#include <ATen/Functions.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <utility>

using namespace altgrad::optim;
using at::Tensor;

bool altgrad::optim::isAsStored(const Tensor &value, const Tensor &param, const Stream &stream) {
  return value.scalar_type() == stream.type && (stream.block != 1 || stream.packed || hasLayoutOf(param, value));
}

Tensor altgrad::optim::asStored(const Tensor &value, const Tensor &param, const Stream &stream) {
  if (isAsStored(value, param, stream))
    return value;
  return at::empty_like(param, param.options().dtype(stream.type)).copy_(value);
}

// Sizes and strides of the bytes for codes of 4 bits in the order of the
// parameter's memory: the dimension whose elements are neighbours has half of
// them, or all bytes where that is odd and the others 1.
static std::pair<std::vector<int64_t>, std::vector<int64_t>> packedLayout(const Tensor &param,
                                                                          const Place &place = {}) {
  std::vector<int64_t> sizes = param.sizes().vec(), strides = param.strides().vec();
  int64_t inner = int64_t(sizes.size()) - 1, last = INT64_MAX;
  for (int64_t i = int64_t(sizes.size()) - 1; i >= 0; --i)
    if (sizes[i] != 1 && strides[i] < last)
      last = strides[inner = i];
  if (inner < 0)
    return {sizes, strides};
  bool halves = sizes[inner] % 2 == 0 || param.numel() == 0;
  int64_t before = INT64_MAX, bytes = (param.numel() + 1) / 2;
  for (int64_t i = 0; i < int64_t(sizes.size()); ++i) {
    if (!halves && i != inner && sizes[i] != 1)
      TORCH_CHECK(std::exchange(before, strides[i]) > strides[i], "altgrad: ", toString(place), " has sizes ",
                  param.sizes(), " and strides ", param.strides(),
                  ", an odd number of neighbours, and codes that share bytes "
                  "would not say how the others lie: make it contiguous");
    sizes[i] = halves ? (i == inner ? sizes[i] / 2 : sizes[i]) : (i == inner ? bytes : 1);
    strides[i] = i == inner ? 1 : halves ? std::max<int64_t>(strides[i] / 2, 1) : bytes;
  }
  return {sizes, strides};
}

// One for each block, the last of which may be short; those of a copy are by
// rows, as MX tensors have them, or over rows.
static std::vector<int64_t> scaleSizes(const Stream &stream, const Tensor &param) {
  auto blocks = [&](int64_t count) { return (count + stream.block - 1) / stream.block; };
  if (!stream.block)
    return {};
  if (stream.columns) {
    int64_t rows = 1, columns = param.dim() ? param.size(-1) : 1;
    for (int64_t i = 0; i + 1 < param.dim(); ++i)
      rows *= param.size(i);
    return {blocks(rows), (columns + stream.columns - 1) / stream.columns};
  }
  if (stream.key != "copy" || param.dim() < 2)
    return {blocks(param.numel())};
  std::vector<int64_t> sizes = param.sizes().vec();
  sizes.back() = blocks(sizes.back());
  return sizes;
}

Tensor altgrad::optim::fresh(const Stream &stream, const Tensor &param) {
  auto options = param.options().dtype(stream.type);
  if (stream.block != 1)
    return at::zeros(scaleSizes(stream, param), options);
  if (stream.packed) {
    auto [sizes, strides] = packedLayout(param);
    return unwritten(at::empty_strided(sizes, strides, options)).zero_();
  }
  if (stream.role == ALTGRAD_ROLE_MASTER || stream.role == ALTGRAD_ROLE_COPY)
    return unwritten(at::empty_like(param, options)).copy_(param);
  return unwritten(at::empty_like(param, options)).zero_();
}

static void replace(std::string &word, const std::string &from, const std::string &to) {
  if (size_t at = word.find(from); at != std::string::npos)
    word.replace(at, from.size(), to);
}

// How a copy is made where there was no step: nobody has drawn, and one scale
// is by the parameter's own largest number.
static std::string firstWord(std::string word) {
  replace(word, ",both", "");
  replace(word, ",stochastic32", "");
  replace(word, ",stochastic", "");
  for (const char *by : {",delayed", ",bounded"})
    if (size_t at = word.find(by); at != std::string::npos) {
      size_t end = word.find(',', at + 1);
      word.replace(at, std::min(end, word.size()) - at, ",current");
    }
  return word;
}

using Parts = std::map<std::string, const Tensor *>; // by the names of a first step

// Rounds numbers into a copy and its scales. `rows`: of the numbers as a
// matrix, where blocks are over rows.
static void firstStep(const Tensor &from, Parts parts, const std::string &word, std::vector<int64_t> rows = {}) {
  Tensor most; // which a first step says, and none of `current` keeps
  if (!parts.count("copy_amax")) {
    most = at::empty({}, from.options().dtype(at::kFloat));
    parts["copy_amax"] = &most;
  }
  Tensor numbers = from.detach().contiguous().resolve_neg();
  std::optional<Listed> listed = lookAt({&numbers}, /*written=*/false);
  TORCH_INTERNAL_ASSERT(listed);
  std::string format = word.substr(0, word.find_first_of(":,"));
  GradientStep &step = GradientStep::of(*listed, numbers.device(), "--quantize=" + format,
                                        /*copies=*/true, word, std::move(rows));
  step.values().give(ALTGRAD_ROLE_SCALE, 1);
  std::vector<GradientStep::Other> into;
  for (auto &[key, tensor] : parts)
    into.push_back({key, {uint64_t(uintptr_t(tensor->mutable_data_ptr()))}});
  step.run(*listed, into);
}

// The columns as rows of a matrix that zeros, of which no block is the largest,
// make one of whole blocks.
static void quantizeColumns(const Tensor &param, const Tensor &codes, const Tensor &scales, int64_t block,
                            const std::string &word) {
  if (param.numel() == 0)
    return;
  int64_t rows = rowsOf(param), columns = param.numel() / rows;
  Tensor turned = at::zeros({columns, (rows + block - 1) / block * block}, param.options());
  turned.narrow(1, 0, rows).copy_(param.detach().reshape({rows, columns}).t());
  Tensor found = at::empty_like(turned, codes.options());
  Tensor units = at::empty({columns, turned.size(1) / block}, scales.options());
  firstStep(turned, {{"copy", &found}, {"copy_scale", &units}}, word);
  codes.copy_(found.narrow(1, 0, rows).t().reshape(codes.sizes()));
  scales.copy_(units.t());
}

void altgrad::optim::beginCopy(const Set &set, const std::vector<const Tensor *> &kept, const Tensor &param,
                               const std::string &word) {
  const Tensor *from = &param, *columns = nullptr, *columnScales = nullptr;
  int64_t block = 1;
  std::vector<int64_t> rows;
  Parts parts;
  for (size_t i = 0; i < set.kept.size(); ++i) {
    const Stream &stream = set.kept[i];
    if (stream.columns > 1)
      rows = {rowsOf(param)};
    if (stream.role == ALTGRAD_ROLE_MASTER)
      from = kept[i];
    else if (stream.role == ALTGRAD_ROLE_TENSOR_SCALE)
      parts[stream.key] = kept[i];
    else if (stream.key == "copy")
      parts[stream.role == ALTGRAD_ROLE_COPY ? "copy" : "copy_scale"] = kept[i];
    else if (stream.key == columnsKey) {
      (stream.role == ALTGRAD_ROLE_COPY ? columns : columnScales) = kept[i];
      block = std::max<int64_t>(block, stream.block);
    }
  }
  if (!parts.count("copy_scale") || (from->numel() == 0 && !parts.at("copy_scale")->numel()))
    return;
  std::string first = firstWord(word);
  firstStep(*from, std::move(parts), first, std::move(rows));
  if (columns)
    quantizeColumns(*from, *columns, *columnScales, block, first);
}

void altgrad::optim::checkOrder(const Set &set, const Tensor &param, const Place &place) {
  checkRows(param, set, place);
  for (const Stream &stream : set.kept)
    if (stream.packed)
      packedLayout(param, place);
}

void altgrad::optim::checkKept(const Tensor &value, const std::string &key, const Stream &stream, bool scaled,
                               const Tensor &param, const Place &place) {
  if (stream.block != 1)
    return checkScales(value, key, stream.type, scaleSizes(stream, param), param, place);
  if (stream.packed)
    return checkPacked(value, key, packedLayout(param, place), param, place);
  checkState(value, key, stream.type, param, place);
  // Codes that nobody multiplies would be read as numbers.
  TORCH_CHECK(!scaled || stream.role != ALTGRAD_ROLE_STATE || stream.scaled > 1, "altgrad: '", key, "' of ",
              toString(place), " has scales in '", key,
              "_scale', and the storage has none: make the optimizer with "
              "the storage that its states have");
  TORCH_CHECK(stream.scaled == 1 || isAsStored(value, param, stream), "altgrad: '", key, "' of ", toString(place),
              " is ", value.scalar_type(), " with strides ", value.strides(), ", expected ", stream.type,
              " with those of the parameter, ", param.strides(),
              ": blocks that share a scale cannot be put into another order");
}
