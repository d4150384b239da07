// Says what is wrong with a tensor, in one sentence.
#include "Checks.h"

#include <c10/util/Exception.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

std::string altgrad::optim::toString(const Place &place) {
  return "parameter " + std::to_string(place.index) + " of group " +
         std::to_string(place.group);
}

void altgrad::optim::checkParameter(const Tensor &param, const Place &place) {
  auto type = param.scalar_type();
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kBFloat16 ||
                       type == at::kHalf,
                   "altgrad: ", toString(place), " is ", type,
                   ", expected Float, BFloat16 or Half");
  TORCH_CHECK(param.layout() == at::kStrided, "altgrad: ", toString(place),
              " has layout ", param.layout(), ", expected Strided");
  TORCH_CHECK(param.device().is_cpu(), "altgrad: ", toString(place), " is on ",
              param.device(), "; this optimizer runs on the CPU");
  TORCH_CHECK(!param.is_inference() || c10::InferenceMode::is_enabled(),
              "altgrad: ", toString(place), " is an inference tensor");
  TORCH_CHECK(param.is_non_overlapping_and_dense() && !param.is_neg() &&
                  !param._is_zerotensor(),
              "altgrad: ", toString(place), " is not dense: sizes ",
              param.sizes(), ", strides ", param.strides());
}

void altgrad::optim::checkGradient(const Tensor &param, const Tensor &grad,
                                   const Place &place) {
  TORCH_CHECK(!grad.is_sparse() && grad.layout() == at::kStrided,
              "altgrad does not support sparse gradients: that of ",
              toString(place), " has layout ", grad.layout());
  TORCH_CHECK(grad.device() == param.device(), "altgrad: the gradient of ",
              toString(place), " is on ", grad.device(), ", expected ",
              param.device());
  TORCH_CHECK_TYPE(grad.scalar_type() == param.scalar_type(),
                   "altgrad: the gradient of ", toString(place), " is ",
                   grad.scalar_type(), ", expected ", param.scalar_type());
  TORCH_CHECK(grad.sizes() == param.sizes(), "altgrad: the gradient of ",
              toString(place), " has sizes ", grad.sizes(), ", expected ",
              param.sizes());
}

bool altgrad::optim::hasLayoutOf(const Tensor &param, const Tensor &other) {
  if (other.is_neg() || other._is_zerotensor())
    return false;
  if (param.is_contiguous() && other.is_contiguous())
    return true;
  // The stride of a dimension of one element says nothing.
  for (int64_t i = 0; i < param.dim(); ++i)
    if (param.size(i) != 1 && param.stride(i) != other.stride(i))
      return false;
  return true;
}

std::string Written::Range::name() const {
  return what.empty() ? toString(place)
                      : "'" + what + "' of " + toString(place);
}

void Written::add(const Tensor &tensor, const Place &place, std::string what) {
  if (tensor.numel() == 0)
    return;
  auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  ranges.push_back({begin, begin + tensor.nbytes(), place, std::move(what)});
}

void Written::close() {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i)
    TORCH_CHECK(ranges[i - 1].end <= ranges[i].begin,
                "altgrad: ", ranges[i].name(), " overlaps ",
                ranges[i - 1].name(), " in memory");
  spans.clear();
  for (const Range &range : ranges)
    spans.push_back({range.begin, range.end});
}

void Written::checkApart(const void *data, size_t bytes,
                         const Place &place) const {
  auto begin = reinterpret_cast<uintptr_t>(data);
  // The first that ends behind `begin`.
  const Span *next = spans.data();
  for (size_t left = spans.size(); left > 0;) {
    size_t half = (left + 1) / 2;
    next += next[half - 1].end <= begin ? half : 0;
    left -= half;
  }
  size_t found = size_t(next - spans.data());
  TORCH_CHECK(found == spans.size() || bytes == 0 ||
                  begin + bytes <= next->begin,
              "altgrad: the gradient of ", toString(place), " overlaps ",
              ranges[found].name(), " in memory");
}
