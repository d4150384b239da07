// Says what is wrong with a tensor, in one sentence.
#include "tensors/Checks.h"
#include "table/Program.h"
#include "tensors/Where.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

std::string altgrad::optim::toString(const Place &place) {
  return "parameter " + std::to_string(place.index) + " of group " + std::to_string(place.group);
}

bool altgrad::optim::isStored(const Tensor &tensor) {
  return tensor.layout() == at::kStrided && Where::isKnown(tensor.device()) &&
         !tensor.key_set().has(c10::DispatchKey::Python) && (tensor.has_storage() || tensor._is_zerotensor());
}

// torch refuses the same, in its own words, when the tensor is written.
static void checkWritable(const Tensor &tensor, const std::string &name) {
  TORCH_CHECK(!tensor.is_inference() || c10::InferenceMode::is_enabled(), "altgrad: ", name, " is an inference tensor");
}

bool altgrad::optim::isSupported(c10::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

// Whether two elements may share memory: conservative, exact for slices of dense tensors.
static bool repeats(const Tensor &param) {
  std::vector<std::pair<int64_t, int64_t>> order;
  for (int64_t i = 0; i < param.dim(); ++i)
    if (param.size(i) > 1)
      order.emplace_back(param.stride(i), param.size(i));
  std::sort(order.begin(), order.end());
  int64_t reach = 0;
  for (auto [stride, size] : order) {
    if (stride <= reach)
      return true;
    reach += stride * (size - 1);
  }
  return false;
}

void altgrad::optim::checkParameter(const Tensor &param, const Place &place) {
  TORCH_CHECK_TYPE(isSupported(param.scalar_type()), "altgrad: ", toString(place), " is ", param.scalar_type(),
                   ", expected Float, BFloat16 or Half");
  TORCH_CHECK(param.layout() == at::kStrided, "altgrad: ", toString(place), " has layout ", param.layout(),
              ", expected Strided");
  TORCH_CHECK(Where::isKnown(param.device()), "altgrad: ", toString(place), " is on ", param.device(),
              "; this optimizer runs on the CPU and on NVIDIA's GPUs");
  TORCH_CHECK(isStored(param), "altgrad: ", toString(place),
              " is a wrapper of other tensors, without memory of its own");
  checkWritable(param, toString(place));
  TORCH_CHECK(!param._is_zerotensor() && !repeats(param), "altgrad: ", toString(place),
              " has several elements at one address: sizes ", param.sizes(), ", strides ", param.strides(),
              ": clone() it");
  checkExtent(param);
}

void altgrad::optim::checkGradient(const Tensor &param, const Tensor &grad, const Place &place) {
  TORCH_CHECK(!grad.is_sparse() && grad.layout() == at::kStrided, "altgrad does not support sparse gradients: that of ",
              toString(place), " has layout ", grad.layout());
  TORCH_CHECK(grad.device() == param.device(), "altgrad: the gradient of ", toString(place), " is on ", grad.device(),
              ", expected ", param.device());
  TORCH_CHECK_TYPE(grad.scalar_type() == param.scalar_type(), "altgrad: the gradient of ", toString(place), " is ",
                   grad.scalar_type(), ", expected ", param.scalar_type());
  TORCH_CHECK(grad.sizes() == param.sizes(), "altgrad: the gradient of ", toString(place), " has sizes ", grad.sizes(),
              ", expected ", param.sizes());
  TORCH_CHECK(isStored(grad), "altgrad: the gradient of ", toString(place),
              " is a wrapper of other tensors, without memory of its own");
}

void altgrad::optim::checkStored(const Tensor &state, const std::string &name) {
  TORCH_CHECK(isStored(state), "altgrad: ", name, " is no plain tensor of the CPU or a GPU: ", state.layout(), " on ",
              state.device());
  checkWritable(state, name);
}

int64_t altgrad::optim::unitsOf(const Tensor &param) {
  return param.dim() > 1 && param.numel() > 0 ? param.size(0) : 1;
}

std::pair<int64_t, int64_t> altgrad::optim::matrixOf(const Tensor &param) {
  return param.dim() < 2 ? std::pair<int64_t, int64_t>() : std::pair(param.size(-2), param.size(-1));
}

int64_t altgrad::optim::rowsOf(const Tensor &param) {
  return param.dim() > 1 && param.numel() > 0 ? param.numel() / param.size(-1) : 1;
}

void altgrad::optim::checkCount(const Tensor &count, const std::string &key, const Place &place) {
  const std::string name = "'" + key + "' of " + toString(place);
  TORCH_CHECK(count.dim() == 0, "altgrad: ", name, " has sizes ", count.sizes(), ", expected []");
  checkStored(count, name);
  // A float beyond it becomes no int64, in which rules have the count.
  constexpr double most = 0x1p63;
  if (!Where::isKnown(count.device()) || !Where(count.device()).isHost())
    return;
  double steps = count.item<double>();
  TORCH_CHECK_VALUE(steps >= 0 && steps < most, "altgrad: ", name, " is ", steps,
                    "; a step count is a number from 0 to 2^63");
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

size_t altgrad::optim::extentOf(const Tensor &tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    last += (tensor.size(i) - 1) * tensor.stride(i);
  return size_t(last + 1) * tensor.element_size();
}

void altgrad::optim::checkExtent(const Tensor &tensor) {
  if (tensor.numel() == 0 || !tensor.has_storage())
    return;
  size_t offset = size_t(tensor.storage_offset()) * tensor.element_size(), end = offset + extentOf(tensor),
         held = tensor.storage().nbytes();
  TORCH_CHECK(end <= held, "altgrad: a tensor of sizes ", tensor.sizes(), " ends at byte ", end, " of a storage of ",
              held, " bytes: resize the storage before the step");
}
