// A tensor rounded to codes by the step that writes a parameter's copy.
#ifndef ALTGRAD_TORCH_BLOCKS_H
#define ALTGRAD_TORCH_BLOCKS_H

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace altgrad::optim {

// What a copy consists of, by the keys of the step: "copy" and its scales.
using CopyParts = std::map<std::string, const at::Tensor *>;

// Rounds contiguous numbers into the parts of a copy. `word` is its storage in full, without a step's draws and
// history; `rows`: of the numbers as a matrix, where blocks are over rows.
void quantizeInto(const at::Tensor &numbers, CopyParts parts, const std::string &word, std::vector<int64_t> rows = {});

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_BLOCKS_H
