// Tensors as libaltgrad_core.so takes them.
#ifndef ALTGRAD_TORCH_OBJECTS_H
#define ALTGRAD_TORCH_OBJECTS_H

#include <ATen/core/Tensor.h>
#include <torch/csrc/stable/c/shim.h>

namespace altgrad::optim {

// Valid as long as `tensor` stays where it is.
AtenTensorHandle handleOf(const at::Tensor &tensor);
// Tells the library where torch's objects keep what it reads, once.
void tellObjects();

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_OBJECTS_H
