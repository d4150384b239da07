// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#ifndef ALTGRAD_TORCH_STATES_H
#define ALTGRAD_TORCH_STATES_H

#include "core/altgrad_core.h"
#include "table/Program.h"
#include "tensors/Checks.h"

#include <ATen/core/Tensor.h>

namespace altgrad::optim {

// Whether a kernel can change `value` where it lies.
bool isAsStored(const at::Tensor &value, const at::Tensor &param, const Stream &stream);
// `value`, or its numbers in the type and the order of memory of `stream`.
at::Tensor asStored(const at::Tensor &value, const at::Tensor &param, const Stream &stream);
// A new state of a set: zeros, or the parameter for its master and its further copy.
at::Tensor createState(const Program &program, int32_t set, size_t index, const at::Tensor &param,
                       const altgrad_core_matrices *matrices);
// Fills a copy with scales, and these, where no step has: of what is `kept` of
// a parameter. `word` is how the copy is stored in the compiler's words, in
// full.
void beginCopy(const Set &set, const std::vector<const at::Tensor *> &kept, const at::Tensor &param,
               const std::string &word);
// Throws where the step of a set takes no parameter that lies so.
void checkFit(const Program &program, int32_t set, const at::Tensor &param, const altgrad_core_matrices *matrices,
              const ParamIndex &place);
// Throws where it multiplies matrices, and a parameter of which nobody has said which it holds is none.
void checkMatrices(const Program &program, int32_t set, const at::Tensor &param, const ParamIndex &place);
// Throws where what is there is not this state of a set; `scaled`: beside it lie scales that are no other state.
void checkStoredState(const at::Tensor &value, const Program &program, int32_t set, size_t index, bool scaled,
                      const at::Tensor &param, const altgrad_core_matrices *matrices, const ParamIndex &place);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_STATES_H
