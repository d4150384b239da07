// What a step demands of tensors before it changes any.
#ifndef ALTGRAD_TORCH_CHECKS_H
#define ALTGRAD_TORCH_CHECKS_H

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace altgrad::optim {

// A parameter's place, for messages.
struct Place {
  size_t group, index;
};
std::string toString(const Place &place);

// Whether a parameter may have this type.
bool isSupported(c10::ScalarType type);
void checkParameter(const at::Tensor &param, const Place &place);
void checkGradient(const at::Tensor &param, const at::Tensor &grad, const Place &place);
// Throws unless a kernel can read and write a state where it lies.
void checkStored(const at::Tensor &state, const std::string &name);
// What one output of a layer is computed with, a part of dimension 0; a tensor
// of less than two dimensions is one as a whole.
int64_t unitsOf(const at::Tensor &param);

// Its rows and columns, the last two dimensions; 0 and 0, one row, where there are less.
std::pair<int64_t, int64_t> matrixOf(const at::Tensor &param);

// The further copy of a set whose blocks are of columns; and the rows of a
// parameter as a matrix whose columns are of its last dimension.
inline constexpr char columnsKey[] = "copy_columns";
int64_t rowsOf(const at::Tensor &param);
// A count of steps may lie on the CPU, from where it is taken to the parameter.
void checkCount(const at::Tensor &count, const std::string &key, const Place &place);

// Whether the tensor is plain memory of the CPU or of a GPU.
bool isStored(const at::Tensor &tensor);
// Whether the elements of `other` lie in memory in the order of `param`'s.
bool hasLayoutOf(const at::Tensor &param, const at::Tensor &other);
// Bytes from the first element to behind the last; there is one.
size_t extentOf(const at::Tensor &tensor);
// Throws where elements lie beyond the storage: somebody has resized it.
void checkExtent(const at::Tensor &tensor);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_CHECKS_H
