// One step over the tables of several devices and ranks: one norm.
#ifndef ALTGRAD_TORCH_JOINTSTEP_H
#define ALTGRAD_TORCH_JOINTSTEP_H

#include "altgrad/rule_spec.h"
#include "table/TensorTable.h"

namespace altgrad::optim {

// Runs the tables' steps. Where their programs have exchange points, every
// device goes on with what all devices have: sums are added in the order of the
// tables, in f32, then in that of the ranks that `gather` asks, in f64. Nobody waits for a GPU but the CPU's own table.
void runJointStep(const std::vector<TensorTable *> &tables, const RuleSpec::all_gather_t &gather);

// What a rank without tables adds to the norm of the others.
void addNothing(const RuleSpec::all_gather_t &gather);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_JOINTSTEP_H
