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
  if (stream.role == ALTGRAD_ROLE_STATE)
    return at::zeros_like(param, options);
  return at::empty_like(param, options).copy_(param);
}
