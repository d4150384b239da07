// Says what is wrong with a tensor, in one sentence.
#include "tensors/Checks.h"
#include "tensors/DeviceContext.h"
#include "tensors/Errors.h"
#include "tensors/Objects.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

using namespace altgrad::optim;
using at::Tensor;

std::string altgrad::optim::toString(const ParamIndex &place) {
  return "parameter " + std::to_string(place.index) + " of group " + std::to_string(place.group);
}

bool altgrad::optim::isStored(const Tensor &tensor) {
  return tensor.layout() == at::kStrided && DeviceContext::isKnown(tensor.device()) &&
         !tensor.key_set().has(c10::DispatchKey::Python) && (tensor.has_storage() || tensor._is_zerotensor());
}

// torch refuses the same, in its own words, when the tensor is written.
static void checkWritable(const Tensor &tensor, const std::string &name) {
  ALTGRAD_CHECK(!tensor.is_inference() || c10::InferenceMode::is_enabled(), "altgrad: ", name,
                " is an inference tensor");
}

bool altgrad::optim::isSupported(c10::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

void altgrad::optim::checkParameter(const Tensor &param, const ParamIndex &place,
                                    std::optional<c10::ScalarType> codes) {
  ALTGRAD_CHECK_TYPE(isSupported(param.scalar_type()) || codes == param.scalar_type(), "altgrad: ", toString(place),
                     " is ", param.scalar_type(), ", expected Float, BFloat16 or Half");
  ALTGRAD_CHECK(param.layout() == at::kStrided, "altgrad: ", toString(place), " has layout ", param.layout(),
                ", expected Strided");
  ALTGRAD_CHECK(DeviceContext::isKnown(param.device()), "altgrad: ", toString(place), " is on ", param.device(),
                "; this optimizer runs on the CPU and on NVIDIA's GPUs");
  ALTGRAD_CHECK(isStored(param), "altgrad: ", toString(place),
                " is a wrapper of other tensors, without memory of its own");
  checkWritable(param, toString(place));
  ALTGRAD_CHECK(!param._is_zerotensor(), "altgrad: ", toString(place),
                " has no memory, as zeros have none: clone() it");
  ALTGRAD_CHECK(altgrad_core_check_addresses(handleOf(param)) == ALTGRAD_OK, "altgrad: ", toString(place), " ",
                altgrad_core_error());
  checkExtent(param);
}

void altgrad::optim::checkGradient(const Tensor &param, const Tensor &grad, const ParamIndex &place) {
  ALTGRAD_CHECK(!grad.is_sparse() && grad.layout() == at::kStrided,
                "altgrad does not support sparse gradients: that of ", toString(place), " has layout ", grad.layout());
  ALTGRAD_CHECK(grad.device() == param.device(), "altgrad: the gradient of ", toString(place), " is on ", grad.device(),
                ", expected ", param.device());
  const bool codes = !isSupported(param.scalar_type());
  ALTGRAD_CHECK_TYPE(codes ? isSupported(grad.scalar_type()) : grad.scalar_type() == param.scalar_type(),
                     "altgrad: the gradient of ", toString(place), " is ", grad.scalar_type(), ", expected ",
                     codes ? "Float, BFloat16 or Half" : c10::toString(param.scalar_type()));
  ALTGRAD_CHECK(grad.sizes() == param.sizes(), "altgrad: the gradient of ", toString(place), " has sizes ",
                grad.sizes(), ", expected ", param.sizes());
  ALTGRAD_CHECK(isStored(grad), "altgrad: the gradient of ", toString(place),
                " is a wrapper of other tensors, without memory of its own");
}

void altgrad::optim::checkStored(const Tensor &state, const std::string &name) {
  ALTGRAD_CHECK(isStored(state), "altgrad: ", name, " is no plain tensor of the CPU or a GPU: ", state.layout(), " on ",
                state.device());
  checkWritable(state, name);
}

int64_t altgrad::optim::unitsOf(const Tensor &param) {
  return param.dim() > 1 && param.numel() > 0 ? param.size(0) : 1;
}

int64_t altgrad::optim::rowsOf(const Tensor &param) {
  return param.dim() > 1 && param.numel() > 0 ? param.numel() / param.size(-1) : 1;
}

void altgrad::optim::checkCount(const Tensor &count, const std::string &key, const ParamIndex &place) {
  const std::string name = "'" + key + "' of " + toString(place);
  ALTGRAD_CHECK(count.dim() == 0, "altgrad: ", name, " has sizes ", count.sizes(), ", expected []");
  checkStored(count, name);
  // A float beyond it becomes no int64, in which rules have the count.
  constexpr double most = 0x1p63;
  if (!DeviceContext::isKnown(count.device()) || !DeviceContext(count.device()).isHost())
    return;
  double steps = count.item<double>();
  ALTGRAD_CHECK_VALUE(steps >= 0 && steps < most, "altgrad: ", name, " is ", steps,
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

void altgrad::optim::checkExtent(const Tensor &tensor) {
  if (tensor.has_storage() && !tensor._is_zerotensor())
    checkTable(altgrad_core_check_extent(handleOf(tensor)));
}

void Memory::add(const Tensor &tensor, const ParamIndex &place, const std::string &what) {
  if (tensor.numel() == 0)
    return;
  written.push_back(tensor);
  names.push_back(what.empty() ? toString(place) : "'" + what + "' of " + toString(place));
}

void Memory::addGradient(const Tensor &grad, const ParamIndex &place) {
  read.push_back(grad);
  names.push_back("the gradient of " + toString(place));
}

void Memory::check() const {
  std::vector<AtenTensorHandle> handles;
  for (const std::vector<Tensor> *list : {&written, &read})
    for (const Tensor &tensor : *list)
      handles.push_back(handleOf(tensor));
  std::vector<uint8_t> shared(handles.size());
  int64_t pair[2];
  checkTable(
      altgrad_core_overlap(handles.data(), int64_t(handles.size()), int64_t(written.size()), shared.data(), pair));
  ALTGRAD_CHECK(pair[0] < 0, "altgrad: ", names[size_t(pair[1])], " shares memory with ", names[size_t(pair[0])],
                "; clone() it");
}
