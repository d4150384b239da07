// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#include "Kept.h"
#include "Checks.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

using namespace altgrad::optim;
using at::Tensor;

bool altgrad::optim::isAsStored(const Tensor &value, const Tensor &param,
                                const Stream &stream) {
  return value.scalar_type() == stream.type &&
         (stream.block > 1 || hasLayoutOf(param, value));
}

Tensor altgrad::optim::asStored(const Tensor &value, const Tensor &param,
                                const Stream &stream) {
  if (isAsStored(value, param, stream))
    return value;
  return at::empty_like(param, param.options().dtype(stream.type)).copy_(value);
}

Tensor altgrad::optim::fresh(const Stream &stream, const Tensor &param) {
  auto options = param.options().dtype(stream.type);
  if (stream.block > 1)
    return at::zeros({blocksOf(param, stream.block)}, options);
  if (stream.role == ALTGRAD_ROLE_MASTER || stream.role == ALTGRAD_ROLE_COPY)
    return at::empty_like(param, options).copy_(param);
  return at::zeros_like(param, options);
}

void altgrad::optim::checkKept(const Tensor &value, const std::string &key,
                               const Stream &stream, bool scaled,
                               const Tensor &param, const Place &place) {
  if (stream.block > 1)
    return checkScales(value, key, stream.type, stream.block, param, place);
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
