// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#include "optim/Kept.h"
#include "tensors/Checks.h"
#include "ops/GradientStep.h"

#include <ATen/Functions.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

using namespace altgrad::optim;
using at::Tensor;

bool altgrad::optim::isAsStored(const Tensor &value, const Tensor &param,
                                const Stream &stream) {
  return value.scalar_type() == stream.type &&
         (stream.block != 1 || hasLayoutOf(param, value));
}

Tensor altgrad::optim::asStored(const Tensor &value, const Tensor &param,
                                const Stream &stream) {
  if (isAsStored(value, param, stream))
    return value;
  return at::empty_like(param, param.options().dtype(stream.type)).copy_(value);
}

// One for each block, the last of which may be short; those of a copy are by
// rows, as MX tensors have them.
static std::vector<int64_t> scaleSizes(const Stream &stream,
                                       const Tensor &param) {
  auto blocks = [&](int64_t count) {
    return (count + stream.block - 1) / stream.block;
  };
  if (!stream.block)
    return {};
  if (stream.key == columnsKey) {
    int64_t rows = 1;
    for (int64_t i = 0; i + 1 < param.dim(); ++i)
      rows *= param.size(i);
    return {blocks(rows), param.dim() ? param.size(-1) : 1};
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
  if (stream.role == ALTGRAD_ROLE_MASTER || stream.role == ALTGRAD_ROLE_COPY)
    return at::empty_like(param, options).copy_(param);
  return at::zeros_like(param, options);
}

// Rounds a parameter into its copy and the scales of its blocks.
static void quantizeInto(const Tensor &param, const Tensor &codes,
                         const Tensor &scales, const std::string &word) {
  if (param.numel() == 0)
    return;
  Tensor from = param.detach().contiguous().resolve_neg();
  std::optional<Listed> listed = lookAt({&from}, /*written=*/false);
  TORCH_INTERNAL_ASSERT(listed);
  auto at = [](const Tensor &tensor) {
    return std::vector<uint64_t>{
        uint64_t(reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr()))};
  };
  std::string format = word.substr(0, word.find(':'));
  GradientStep &step = GradientStep::of(
      *listed, from.device(), "--quantize=" + format, /*copies=*/true, word);
  step.values().give(ALTGRAD_ROLE_SCALE, 1);
  Listed into{listed->kinds, listed->numels, at(codes)};
  Listed units{listed->kinds, {scales.numel()}, at(scales)};
  step.run(*listed, &into, &units);
}

// The columns as rows of a matrix that zeros, of which no block is the largest,
// make one of whole blocks.
static void quantizeColumns(const Tensor &param, const Tensor &codes,
                            const Tensor &scales, int64_t block,
                            const std::string &word) {
  if (param.numel() == 0)
    return;
  int64_t rows = rowsOf(param), columns = param.numel() / rows;
  Tensor turned =
      at::zeros({columns, (rows + block - 1) / block * block}, param.options());
  turned.narrow(1, 0, rows).copy_(param.detach().reshape({rows, columns}).t());
  Tensor found = at::empty_like(turned, codes.options());
  Tensor units = at::empty({columns, turned.size(1) / block}, scales.options());
  quantizeInto(turned, found, units, word);
  codes.copy_(found.narrow(1, 0, rows).t().reshape(codes.sizes()));
  scales.copy_(units.t());
}

// The largest number of a type that copies are stored in.
static double largestOf(c10::ScalarType type) {
  switch (type) {
  case at::kFloat8_e4m3fn:
    return std::numeric_limits<c10::Float8_e4m3fn>::max();
  case at::kFloat8_e5m2:
    return std::numeric_limits<c10::Float8_e5m2>::max();
  case at::kHalf:
    return std::numeric_limits<c10::Half>::max();
  default:
    return std::numeric_limits<c10::BFloat16>::max();
  }
}

// TransformerEngine's delayed scaling, as codegen/storage/DelayedScale.cpp has
// it.
static void beginDelayed(const Tensor &param, const Tensor &codes,
                         const Tensor &scale, const Tensor &most,
                         const std::string &word) {
  Tensor from = param.detach();
  if (from.numel() > 0)
    most.copy_(from.abs().max());
  double top = largestOf(codes.scalar_type());
  // A number over a tensor would be a product with its inverse.
  Tensor factor = at::full_like(most, top).div(most).clamp_max(
      std::numeric_limits<float>::max());
  factor = at::where(most.gt(0).logical_and(most.lt(INFINITY)), factor,
                     at::ones_like(factor));
  if (word.find(",pow2") != std::string::npos)
    factor =
        at::ldexp(at::ones_like(factor), std::get<1>(at::frexp(factor)).sub(1));
  codes.copy_(from.to(at::kFloat).mul(factor).clamp(-top, top));
  scale.copy_(factor.reciprocal());
}

void altgrad::optim::beginCopy(const Set &set,
                               const std::vector<const Tensor *> &kept,
                               const Tensor &param, const std::string &word) {
  const Tensor *from = &param, *codes = nullptr, *scales = nullptr;
  const Tensor *unit = nullptr, *most = nullptr;
  const Tensor *columns = nullptr, *columnScales = nullptr;
  int64_t block = 1;
  for (size_t i = 0; i < set.kept.size(); ++i) {
    const Stream &stream = set.kept[i];
    if (stream.role == ALTGRAD_ROLE_MASTER)
      from = kept[i];
    if (stream.key == "copy")
      (stream.role == ALTGRAD_ROLE_COPY ? codes : scales) = kept[i];
    if (stream.key == columnsKey) {
      (stream.role == ALTGRAD_ROLE_COPY ? columns : columnScales) = kept[i];
      block = std::max<int64_t>(block, stream.block);
    }
    if (stream.role == ALTGRAD_ROLE_TENSOR_SCALE)
      (stream.key == "copy_amax" ? most : unit) = kept[i];
  }
  if (most)
    beginDelayed(*from, *codes, *unit, *most, word);
  if (!scales)
    return;
  // No step has drawn yet: to nearest.
  std::string rounded = word;
  for (const std::string modifier : {",stochastic", ",both"})
    if (size_t at = rounded.find(modifier); at != std::string::npos)
      rounded.erase(at, modifier.size());
  quantizeInto(*from, *codes, *scales, rounded);
  if (columns)
    quantizeColumns(*from, *columns, *columnScales, block, rounded);
}

void altgrad::optim::checkKept(const Tensor &value, const std::string &key,
                               const Stream &stream, bool scaled,
                               const Tensor &param, const Place &place) {
  if (stream.block != 1)
    return checkScales(value, key, stream.type, scaleSizes(stream, param),
                       param, place);
  checkState(value, key, stream.type, param, place);
  // Codes that nobody multiplies would be read as numbers.
  TORCH_CHECK(!scaled || stream.role != ALTGRAD_ROLE_STATE || stream.scaled > 1,
              "altgrad: '", key, "' of ", toString(place), " has scales in '",
              key,
              "_scale', and the storage has none: make the optimizer with "
              "the storage that its states have");
  TORCH_CHECK(stream.scaled == 1 || isAsStored(value, param, stream),
              "altgrad: '", key, "' of ", toString(place), " is ",
              value.scalar_type(), " with strides ", value.strides(),
              ", expected ", stream.type, " with those of the parameter, ",
              param.strides(),
              ": blocks that share a scale cannot be put into another order");
}
