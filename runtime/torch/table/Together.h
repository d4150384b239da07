// One step over the tables of several devices: one norm.
#ifndef ALTGRAD_TORCH_TOGETHER_H
#define ALTGRAD_TORCH_TOGETHER_H

#include "table/TensorTable.h"

namespace altgrad::optim {

// Runs the tables' steps. Where their programs have exchange points, every
// device goes on with what all devices have: sums are added in the order of the
// tables, in f32. Nobody waits for a GPU but the CPU's own table.
void runTogether(const std::vector<TensorTable *> &tables);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_TOGETHER_H
