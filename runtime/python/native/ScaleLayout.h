// How the scales of a tensor lie over it.
#ifndef ALTGRAD_NATIVE_SCALELAYOUT_H
#define ALTGRAD_NATIVE_SCALELAYOUT_H

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace altgrad::native {

// The tensor in stretches of memory that are tensors of their own to a kernel,
// each with scales that lie in a row.
struct ScaleLayout {
  std::string extent;         // of a scale, as altgrad-opt's --scales has it
  int64_t columns;            // elements of a stretch
  std::vector<int64_t> first; // of each stretch: its first scale, in elements
};

// Whether `scale` holds numbers in f32 that all lie in memory that is there.
bool isReadable(const at::Tensor &scale);

// Of such scales that broadcast against `x`; where `block` is not 0 the last
// dimension of `scale` has one for each `block` neighbours. Nothing where `x`
// is not contiguous, where the result is larger than `x`, and where stretches
// would be too many.
std::optional<ScaleLayout> layoutOf(const at::Tensor &x,
                                    const at::Tensor &scale, int64_t block);

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_SCALELAYOUT_H
