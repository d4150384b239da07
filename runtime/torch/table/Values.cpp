// Brings numbers to where the kernels read them.
#include "table/Values.h"

#include <ATen/ops/_foreach_copy.h>

using namespace altgrad::optim;
using at::Tensor;

Values::Values(const Program &program, std::vector<int32_t> given,
               const Where &where)
    : program(program), groups(std::move(given)), where(where) {
  for (int32_t set : groups) {
    firstCell.push_back(scalars.size());
    for (const Scalar &hyper : program.sets[size_t(set)].hypers)
      scalars.push_back(&hyper);
  }
  firstSingle = scalars.size();
  for (const Scalar &single : program.singles)
    scalars.push_back(&single);
  // One more: the begin of a last group without any is an address, too.
  host.assign(scalars.size() + 1, 0);
  sources.resize(scalars.size());
  placed.resize(program.singles.size());
  if (!where.isHost())
    device =
        std::make_shared<at::DataPtr>(where.allocate(host.size() * cellBytes));
}

void *Values::pointerTo(size_t cell) const {
  if (cell >= firstSingle && cell < scalars.size())
    if (const Tensor &memory = placed[cell - firstSingle]; memory.defined())
      return memory.data_ptr();
  bool result = cell >= firstSingle && cell < scalars.size() &&
                scalars[cell]->access != ALTGRAD_IN;
  if (device && (result || (cell < sources.size() && sources[cell].defined())))
    return static_cast<char *>(device->get()) + cell * cellBytes;
  return const_cast<uint64_t *>(&host[cell]);
}

void Values::bindHypers(altgrad_plan *plan) {
  std::vector<void *> pointers(groups.size());
  for (size_t index = 0; index < program.sets.size(); ++index) {
    const std::vector<Scalar> &hypers = program.sets[index].hypers;
    for (size_t i = 0; i < hypers.size(); ++i) {
      for (size_t group = 0; group < groups.size(); ++group)
        pointers[group] = pointerTo(firstCell[group] +
                                    (size_t(groups[group]) == index ? i : 0));
      check(altgrad_bind_scalar(plan, hypers[i].name.c_str(), pointers.data(),
                                int64_t(pointers.size())));
    }
  }
}

void Values::bind(altgrad_plan *plan) {
  std::vector<char> now;
  for (const Tensor &source : sources)
    now.push_back(source.defined());
  now.push_back(0); // never empty
  if (now != bound) {
    check(altgrad_mirror(plan, host.data(), host.size() * cellBytes));
    bindHypers(plan);
    for (size_t cell = firstSingle; cell < scalars.size(); ++cell) {
      void *pointer = pointerTo(cell);
      check(
          altgrad_bind_scalar(plan, scalars[cell]->name.c_str(), &pointer, 1));
    }
    bound = std::move(now);
  }
  toggled = false;
}

void Values::send(altgrad_plan *plan) {
  if (toggled)
    bind(plan);
  if (sourceCount == 0)
    return;
  std::vector<Tensor> to, from;
  for (size_t cell = 0; cell < sources.size(); ++cell)
    if (sources[cell].defined()) {
      to.push_back(
          where.view(device, cell * cellBytes, scalars[cell]->scalarType()));
      from.push_back(sources[cell].dim() ? sources[cell].view(at::IntArrayRef())
                                         : sources[cell]);
    }
  at::_foreach_copy_(to, from, /*non_blocking=*/true);
}

void Values::addTo(Owned &owned) const {
  owned.add(device);
  for (const std::vector<Tensor> &all : {sources, placed})
    for (const Tensor &tensor : all)
      owned.add(tensor);
}

void Values::setSource(size_t cell, Tensor value) {
  if (!device && value.defined()) {
    scalars[cell]->write(value.item<double>(), &host[cell]);
    return;
  }
  toggled |= value.defined() != sources[cell].defined();
  sourceCount += value.defined();
  sourceCount -= sources[cell].defined();
  sources[cell] = std::move(value);
}

void Values::hyper(int64_t group, size_t index, const Tensor &value) {
  setSource(firstCell[size_t(group)] + index, value);
}

void Values::place(size_t index, const Tensor &memory) {
  Tensor &held = placed.at(index);
  if (held.is_same(memory))
    return;
  const Scalar &single = *scalars[firstSingle + index];
  TORCH_CHECK(memory.scalar_type() == single.scalarType() &&
                  memory.numel() == single.numbers() &&
                  memory.is_contiguous() && memory.device() == where.device(),
              "altgrad: no place for ", program.singles[index].name);
  held = memory;
  bound.clear();
  toggled = true;
}

void Values::forget(int64_t group) {
  if (sourceCount == 0)
    return;
  size_t first = firstCell[size_t(group)];
  size_t count = program.sets[size_t(groups[size_t(group)])].hypers.size();
  for (size_t cell = first; cell < first + count; ++cell)
    setSource(cell, Tensor());
}

// The cell of a single that is given to the step, or is a result of it.
size_t Values::cellOf(int32_t role, bool result) const {
  size_t cell = firstSingle;
  for (; cell < scalars.size(); ++cell)
    if (scalars[cell]->role == role &&
        scalars[cell]->access != (result ? ALTGRAD_IN : ALTGRAD_OUT))
      return cell;
  return cell;
}

void Values::give(int32_t role, double value) {
  size_t cell = cellOf(role, false);
  if (cell == scalars.size())
    return;
  setSource(cell, Tensor());
  scalars[cell]->write(value, &host[cell]);
}

void Values::give(int32_t role, const Tensor &value) {
  if (size_t cell = cellOf(role, false); cell < scalars.size())
    setSource(cell, value);
}

double Values::number(int32_t role) const {
  size_t cell = cellOf(role, true);
  return cell == scalars.size() ? 0 : scalars[cell]->read(&host[cell]);
}

Tensor Values::tensor(int32_t role) const {
  size_t cell = cellOf(role, true);
  return cell == scalars.size() || !device
             ? Tensor()
             : where.view(device, cell * cellBytes,
                          scalars[cell]->scalarType());
}
