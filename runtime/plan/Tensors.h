// The tensors of a plan as a caller declares them.
#ifndef ALTGRAD_RUNTIME_TENSORS_H
#define ALTGRAD_RUNTIME_TENSORS_H

#include "bundle/Manifest.h"
#include "plan/Plan.h"

#include <vector>

namespace altgrad::runtime {

// Copies the members that we know out of structs as long as the caller's.
altgrad_status readTensors(const altgrad_tensor *tensors, int64_t count, std::vector<altgrad_tensor> &out);

// The key of a tensor's random bits.
inline int64_t tagOf(const altgrad_tensor &tensor, int64_t index) { return tensor.tag < 0 ? index : tensor.tag; }

altgrad_status checkTensors(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, int64_t ngroups);

// Fills rows, chunks and where each set and group is; no pointer is bound yet.
void layTables(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors, int64_t ngroups, Tables &tables);

// Brings `out` up to date: the tables of `whole` without the tensors whose byte
// in `present` is 0, as if they had not been declared. `what` has a bit for each
// table that differs from the last time; all of them where `present` does.
void selectTensors(const Manifest &manifest, const Tables &whole, const std::vector<uint8_t> &present, unsigned what,
                   Tables &out);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_TENSORS_H
