// What a step demands of tensors before it changes any.
#ifndef ALTGRAD_TORCH_CHECKS_H
#define ALTGRAD_TORCH_CHECKS_H

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace altgrad::optim {

// A parameter's place, for messages.
struct ParamIndex {
  size_t group, index;
};
std::string toString(const ParamIndex &place);

// Whether a parameter may have this type.
bool isSupported(c10::ScalarType type);
// `codes`: another type that it may have, whose gradient may have any of these.
void checkParameter(const at::Tensor &param, const ParamIndex &place, std::optional<c10::ScalarType> codes);
void checkGradient(const at::Tensor &param, const at::Tensor &grad, const ParamIndex &place);
// Throws unless a kernel can read and write a state where it lies.
void checkStored(const at::Tensor &state, const std::string &name);
// What one output of a layer is computed with, a part of dimension 0; a tensor
// of less than two dimensions is one as a whole.
int64_t unitsOf(const at::Tensor &param);

// The further copy of a set whose blocks are of columns; and the rows of a
// parameter as a matrix whose columns are of its last dimension.
inline constexpr char columnsKey[] = "copy_columns";
int64_t rowsOf(const at::Tensor &param);
// A count of steps may lie on the CPU, from where it is taken to the parameter.
void checkCount(const at::Tensor &count, const std::string &key, const ParamIndex &place);

// Whether the tensor is plain memory of the CPU or of a GPU.
bool isStored(const at::Tensor &tensor);
// Whether the elements of `other` lie in memory in the order of `param`'s.
bool hasLayoutOf(const at::Tensor &param, const at::Tensor &other);
// Throws where elements lie beyond the storage: somebody has resized it.
void checkExtent(const at::Tensor &tensor);

// What a step writes, and the gradients that it reads: all of it apart from each other, but for gradients.
struct Memory {
  std::vector<at::Tensor> written, read;
  std::vector<std::string> names; // of both, what is written first
  // `what` is the name of a state, "" for the parameter itself.
  void add(const at::Tensor &tensor, const ParamIndex &place, const std::string &what);
  // After all that is written.
  void addGradient(const at::Tensor &grad, const ParamIndex &place);
  void check() const;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_CHECKS_H
