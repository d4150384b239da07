// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#include "optim/Kept.h"
#include "ops/GradientStep.h"
#include "tensors/Checks.h"

#include <ATen/Functions.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <map>

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

static void replace(std::string &word, const std::string &from,
                    const std::string &to) {
  if (size_t at = word.find(from); at != std::string::npos)
    word.replace(at, from.size(), to);
}

// How a copy is made where there was no step: nobody has drawn, and one scale
// is by the parameter's own largest number.
static std::string firstWord(std::string word) {
  replace(word, ",stochastic32", "");
  replace(word, ",stochastic", "");
  for (const char *by : {",delayed", ",bounded"})
    if (size_t at = word.find(by); at != std::string::npos) {
      size_t end = word.find(',', at + 1);
      word.replace(at, std::min(end, word.size()) - at, ",current");
    }
  return word;
}

void altgrad::optim::beginCopy(const Set &set,
                               const std::vector<const Tensor *> &kept,
                               const Tensor &param, const std::string &word) {
  const Tensor *from = &param;
  std::map<std::string, const Tensor *> parts; // by the names of a first step
  for (size_t i = 0; i < set.kept.size(); ++i) {
    const Stream &stream = set.kept[i];
    if (stream.role == ALTGRAD_ROLE_MASTER)
      from = kept[i];
    else if (stream.role == ALTGRAD_ROLE_COPY)
      parts["copy"] = kept[i];
    else if (stream.role == ALTGRAD_ROLE_TENSOR_SCALE)
      parts[stream.key] = kept[i];
    else if (stream.role == ALTGRAD_ROLE_BLOCK_SCALE && stream.key == "copy")
      parts["copy_scale"] = kept[i];
  }
  if (!parts.count("copy_scale") ||
      (from->numel() == 0 && !parts.at("copy_scale")->numel()))
    return;
  Tensor most; // which a first step says, and none of `current` keeps
  if (!parts.count("copy_amax")) {
    most = at::empty({}, from->options().dtype(at::kFloat));
    parts["copy_amax"] = &most;
  }
  Tensor numbers = from->detach().contiguous().resolve_neg();
  std::optional<Listed> listed = lookAt({&numbers}, /*written=*/false);
  TORCH_INTERNAL_ASSERT(listed);
  std::string first = firstWord(word);
  std::string format = first.substr(0, first.find_first_of(":,"));
  GradientStep &step =
      GradientStep::of(*listed, numbers.device(), "--quantize=" + format,
                       /*copies=*/true, first);
  step.values().give(ALTGRAD_ROLE_SCALE, 1);
  std::map<std::string, Listed> into;
  for (auto &[key, tensor] : parts)
    into[key] = {
        listed->kinds,
        {tensor->numel()},
        {uint64_t(reinterpret_cast<uintptr_t>(tensor->mutable_data_ptr()))}};
  step.run(*listed, into);
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
