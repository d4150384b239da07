// The numbers of a step: what the kernels read of groups and of the whole step,
// and what the step says of itself.
#ifndef ALTGRAD_TORCH_VALUES_H
#define ALTGRAD_TORCH_VALUES_H

#include "table/Program.h"
#include "tensors/Owned.h"

namespace altgrad::optim {

// Each has a cell of 8 bytes on the host, whose values the runtime brings to
// the device, and one on the device: for a number that lies in a tensor there,
// which nobody reads back, and for results. On the host the two are one.
class Values {
public:
  // `groups` has the set of each group of the plan.
  Values(const Program &program, std::vector<int32_t> groups,
         const Where &where);
  Values(const Values &) = delete;

  // The host's cells of a group's hyper-parameters, in the order of its set.
  uint64_t *hypers(int64_t group) { return &host[firstCell[size_t(group)]]; }
  // One that is in a tensor of the device; until `forget` the cell means
  // nothing.
  void hyper(int64_t group, size_t index, const at::Tensor &value);
  void forget(int64_t group);
  // Step-wide values, by role.
  void give(int32_t role, double value);
  void give(int32_t role, const at::Tensor &value);

  // From now on the `index`-th of the program's singles lies in `memory`, on
  // the plan's device, where the step reads it and writes it.
  void place(size_t index, const at::Tensor &memory);

  // Binds what is not bound to its cells yet, and queues copies of the tensors.
  void send(altgrad_plan *plan);

  // The memory on the device that the step reads and writes now.
  void addTo(Owned &owned) const;

  // What the step says: a number that has been computed, on the host; elsewhere
  // a 0-dim tensor that the next step overwrites. Without the role: 0,
  // undefined.
  double number(int32_t role) const;
  at::Tensor tensor(int32_t role) const;

private:
  static constexpr size_t cellBytes = 8;
  const Scalar &scalarOf(size_t cell) const;
  size_t cellOf(int32_t role, bool result) const;
  void *pointerTo(size_t cell) const;
  void setSource(size_t cell, at::Tensor value);
  void bind(altgrad_plan *plan);
  void bindHypers(altgrad_plan *plan);

  const Program &program;
  std::vector<int32_t> groups;
  Where where;
  std::vector<size_t> firstCell;       // of each group
  std::vector<const Scalar *> scalars; // of each cell
  size_t firstSingle = 0;
  std::vector<uint64_t> host;
  std::vector<at::Tensor> sources; // of each cell; undefined: the number counts
  size_t sourceCount = 0;
  std::vector<at::Tensor> placed; // of each single; undefined: it has a cell
  Where::Memory device;           // null on the host
  // Which cells had a source when all were bound; empty: they never were.
  std::vector<char> bound;
  bool toggled = true; // a source came or went since
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_VALUES_H
