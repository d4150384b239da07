// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#include "optim/Kept.h"
#include "ops/GradientStep.h"
#include "tensors/Checks.h"

#include <ATen/Functions.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>
#include <utility>

using namespace altgrad::optim;
using at::Tensor;

bool altgrad::optim::isAsStored(const Tensor &value, const Tensor &param,
                                const Stream &stream) {
  return value.scalar_type() == stream.type &&
         (stream.block != 1 || stream.packed || hasLayoutOf(param, value));
}

Tensor altgrad::optim::asStored(const Tensor &value, const Tensor &param,
                                const Stream &stream) {
  if (isAsStored(value, param, stream))
    return value;
  return at::empty_like(param, param.options().dtype(stream.type)).copy_(value);
}

// Sizes and strides of the bytes for codes of 4 bits in the order of the
// parameter's memory: the dimension whose elements are neighbours has half of
// them, or all bytes where that is odd and the others 1.
static std::pair<std::vector<int64_t>, std::vector<int64_t>>
packedLayout(const Tensor &param, const Place &place = {}) {
  std::vector<int64_t> sizes = param.sizes().vec(),
                       strides = param.strides().vec();
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
      TORCH_CHECK(std::exchange(before, strides[i]) > strides[i],
                  "altgrad: ", toString(place), " has sizes ", param.sizes(),
                  " and strides ", param.strides(),
                  ", an odd number of neighbours, and codes that share bytes "
                  "would not say how the others lie: make it contiguous");
    sizes[i] = halves ? (i == inner ? sizes[i] / 2 : sizes[i])
                      : (i == inner ? bytes : 1);
    strides[i] = i == inner ? 1
                 : halves   ? std::max<int64_t>(strides[i] / 2, 1)
                            : bytes;
  }
  return {sizes, strides};
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
    return at::empty_strided(sizes, strides, options).zero_();
  }
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
  Listed into{listed->kinds, {codes.numel()}, at(codes)};
  Listed units{listed->kinds, {scales.numel()}, at(scales)};
  step.run(*listed, &into, &units);
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

// The largest magnitude of a parameter, and by what all of it is multiplied to
// have `top` there.
static Tensor tensorScale(const Tensor &from, const Tensor &most, double top) {
  if (from.numel() > 0)
    most.copy_(from.abs().max());
  // A number over a tensor would be a product with its inverse.
  Tensor factor = at::full_like(most, top).div(most).clamp_max(
      std::numeric_limits<float>::max());
  return at::where(most.gt(0).logical_and(most.lt(INFINITY)), factor,
                   at::ones_like(factor));
}

// TransformerEngine's delayed scaling, as codegen/storage/DelayedScale.cpp has
// it.
static void beginDelayed(const Tensor &param, const Tensor &codes,
                         const Tensor &scale, const Tensor &most,
                         const std::string &word) {
  Tensor from = param.detach();
  double top = largestOf(codes.scalar_type());
  Tensor factor = tensorScale(from, most, top);
  if (word.find(",pow2") != std::string::npos)
    factor =
        at::ldexp(at::ones_like(factor), std::get<1>(at::frexp(factor)).sub(1));
  codes.copy_(from.to(at::kFloat).mul(factor).clamp(-top, top));
  scale.copy_(factor.reciprocal());
}

// NVFP4, as codegen/storage/TwoLevels.cpp has it: scales of blocks below one of
// the tensor.
static void beginLevels(const Tensor &param, const Tensor &codes,
                        const Tensor &scales, const Tensor &unit,
                        const Tensor &most, int64_t block) {
  constexpr float top = 6, topScale = 448;
  Tensor from = param.detach().to(at::kFloat).flatten();
  Tensor factor = tensorScale(from, most, top * topScale);
  unit.copy_(factor.reciprocal());
  if (from.numel() == 0)
    return;
  from = at::constant_pad_nd(from, {0, (block - from.numel() % block) % block})
             .view({-1, block});
  Tensor level =
      from.abs().amax(1).mul(factor.mul(at::full_like(most, 1 / top)));
  scales.copy_(
      level.clamp_max(topScale).to(scales.scalar_type()).view_as(scales));
  Tensor inverse = scales.to(at::kFloat)
                       .flatten()
                       .mul(unit)
                       .reciprocal()
                       .clamp_max(std::numeric_limits<float>::max());
  Tensor numbers = from.mul(inverse.unsqueeze(1)).flatten();
  // The middles between e2m1's numbers; of two equally near ones the even code.
  Tensor middles =
      at::tensor({0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0}, numbers.options());
  Tensor size = numbers.abs().unsqueeze(1);
  Tensor above = size.gt(middles).logical_or(size.eq(middles).logical_and(
      at::arange(7, middles.options()).remainder(2).eq(1)));
  Tensor code = above.sum(1).add(numbers.signbit(), 8);
  code = code.masked_fill(numbers.isnan(), 0).to(at::kByte);
  code = at::constant_pad_nd(code, {0, code.numel() % 2}).view({-1, 2});
  Tensor bytes = code.select(1, 0).add(code.select(1, 1), 16);
  codes.copy_(bytes.slice(0, 0, codes.numel()).view_as(codes));
}

void altgrad::optim::beginCopy(const Set &set,
                               const std::vector<const Tensor *> &kept,
                               const Tensor &param, const std::string &word) {
  const Tensor *from = &param, *codes = nullptr, *scales = nullptr;
  const Tensor *unit = nullptr, *most = nullptr;
  int64_t blockOfScales = 1;
  for (size_t i = 0; i < set.kept.size(); ++i) {
    const Stream &stream = set.kept[i];
    if (stream.role == ALTGRAD_ROLE_MASTER)
      from = kept[i];
    if (stream.role == ALTGRAD_ROLE_BLOCK_SCALE && stream.key == "copy")
      blockOfScales = stream.block;
    if (stream.key == "copy")
      (stream.role == ALTGRAD_ROLE_COPY ? codes : scales) = kept[i];
    if (stream.role == ALTGRAD_ROLE_TENSOR_SCALE)
      (stream.key == "copy_amax" ? most : unit) = kept[i];
  }
  if (most && scales)
    return beginLevels(*from, *codes, *scales, *unit, *most, blockOfScales);
  if (most)
    beginDelayed(*from, *codes, *unit, *most, word);
  if (!scales)
    return;
  // No step has drawn yet: to nearest.
  std::string rounded = word, drawn = ",stochastic";
  if (size_t at = rounded.find(drawn); at != std::string::npos)
    rounded.erase(at, drawn.size());
  quantizeInto(*from, *codes, *scales, rounded);
}

void altgrad::optim::checkOrder(const Set &set, const Tensor &param,
                                const Place &place) {
  checkRows(param, set, place);
  for (const Stream &stream : set.kept)
    if (stream.packed)
      packedLayout(param, place);
}

void altgrad::optim::checkKept(const Tensor &value, const std::string &key,
                               const Stream &stream, bool scaled,
                               const Tensor &param, const Place &place) {
  if (stream.block != 1)
    return checkScales(value, key, stream.type, scaleSizes(stream, param),
                       param, place);
  if (stream.packed)
    return checkPacked(value, key, packedLayout(param, place), param, place);
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
