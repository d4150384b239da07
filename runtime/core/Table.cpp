// Remembers tensors that were bound.
#include "Table.h"

#include "Python.h"

#include <algorithm>

using namespace altgrad::core;

namespace {

// Bytes of an element of a gradient; 0 for what has no gradients.
double bytesOf(const std::string &format) { return format == "f32" ? 4 : format == "bf16" || format == "f16" ? 2 : 0; }

} // namespace

// In the order in which a table is given the tensors of a row.
void Table::readSets(const Program &program) {
  for (int64_t i = 0; i < program.set_count; ++i) {
    const altgrad_core_set &of = program.sets[i];
    SetRows &set = sets.emplace_back();
    set.grad = of.grad->name;
    set.type = of.param ? of.param->dtype : 0;
    set.states.assign(of.states.at, of.states.at + of.states.count);
    if (const altgrad_core_scalar *step = of.step)
      set.states.push_back({step->name, step->key, step->word, "", step->role, int32_t(i),
                            step->type == ALTGRAD_F32 ? aoti_torch_dtype_float32() : aoti_torch_dtype_int64(), 0, 0, 0,
                            1, 0});
  }
}

// Of each set, side by side, the sweep that comes before whatever depends on it
// and reads gradients alone; none at all where a set has no such.
void Table::findSums(altgrad_bundle *bundle, const Program &program) {
  for (int64_t i = 0; i < program.singles.count; ++i)
    clips |= program.singles.at[i].role == ALTGRAD_ROLE_MAX_NORM;
  size_t found = 0;
  for (int64_t i = 0; i < altgrad_phase_count(bundle); ++i) {
    auto info = describe<altgrad_phase_info>(altgrad_phase_at, bundle, i);
    if (info.kind == ALTGRAD_SCALARS && found == 0)
      continue;
    size_t set = size_t(std::max(info.set, 0));
    if (info.kind != ALTGRAD_SWEEP || info.written != 0 || sets[set].sum >= 0 || info.read != bytesOf(program.sets[set].grad->format))
      break;
    sets[set].sum = i;
    ++found;
  }
  if (found != sets.size())
    for (SetRows &set : sets)
      set.sum = -1;
}

// Where these words are in a list. Neighbours share theirs.
template <typename Word> static uint32_t add(std::vector<Word> &list, const Word *words, size_t count) {
  if (count > list.size() || !std::equal(words, words + count, list.end() - ptrdiff_t(count)))
    list.insert(list.end(), words, words + count);
  return uint32_t(list.size() - count);
}

Seen Table::seenNow(Handle handle) {
  if (!isStrided(handle))
    throw Refusal(ALTGRAD_INVALID, "a tensor of the step is not strided");
  int64_t dims = dimsOf(handle);
  std::vector<int64_t> shape(sizesOf(handle), sizesOf(handle) + dims);
  shape.insert(shape.end(), stridesOf(handle), stridesOf(handle) + dims);
  const void *data = writableOf(handle);
  Seen now{handle, objectOf(handle), data, {}, 0, 0, 0, 0};
  if (objects().dims >= 0) {
    std::copy_n(wordsOf(handle), ownWords, now.own);
    now.shared = add(words, wordsOf(handle) + ownWords, sharedWords);
  }
  now.shape = add(shapes, shape.data(), shape.size());
  now.dims = int32_t(dims);
  now.type = typeOf(handle);
  counters.push_back(counterOf(handle));
  return now;
}

// Products take the matrices of many rows in one call.
void Table::findRows(altgrad_bundle *bundle) {
  phases = altgrad_phase_count(bundle);
  for (int64_t i = 0; i < phases; ++i)
    if (auto info = describe<altgrad_phase_info>(altgrad_phase_at, bundle, i); info.once || info.kind == ALTGRAD_MATRIX)
      rowsFrom_ = i + 1;
}

bool altgrad::core::multiplies(altgrad_bundle *bundle) {
  for (int64_t set = 0; set < altgrad_set_count(bundle); ++set)
    if (altgrad_multiplies(bundle, set))
      return true;
  return false;
}

Table::Table(altgrad_bundle *bundle, altgrad_plan *given, const altgrad_tensor *tensors, const int32_t *types,
             int64_t count, const Handle *handles, const int64_t *widths)
    : plan(given) {
  const Program program(bundle);
  readSets(program);
  findSums(bundle, program);
  findRows(bundle);
  const char *next = reinterpret_cast<const char *>(tensors);
  for (int64_t row = 0; row < count; ++row) {
    auto &tensor = *reinterpret_cast<const altgrad_tensor *>(next);
    next += tensor.size;
    SetRows &set = sets.at(size_t(tensor.set));
    if (set.last == 0)
      set.first = row, set.firstSeen = seen.size();
    set.last = row + 1;
    set.width = size_t(widths[tensor.set]);
    for (size_t i = 0; i < set.width; ++i)
      seen.push_back(seenNow(*handles++));
    const Seen &param = paramOf(set, row);
    rows_.push_back({tensor.numel, types[row], param.shape + uint32_t(param.dims), isContiguous(param.handle), 0,
                     tensor.units, tensor.columns});
  }
  int64_t chunks = 0, own = 0;
  for (const Row &row : rows_)
    own += (row.numel + ALTGRAD_CHUNK - 1) / int64_t(ALTGRAD_CHUNK);
  check(altgrad_partials(plan, nullptr, nullptr, &chunks));
  inUnits = chunks != own;
  grads.assign(rows_.size(), nullptr);
  now.assign(rows_.size(), nullptr);
  taken = now;
  present_.assign(rows_.size(), 1);
  takesPart = present_;
  // A negative view is a parameter like others, but no plain gradient.
  if (!seen.empty())
    keys = keysOf(seen[0].handle) & ~objects().negative;
  if (!seen.empty() && multiplies(bundle))
    multiplyOn(ask<int32_t>(aoti_torch_get_device_type, seen[0].handle), plan);
}

void Table::arrange(int64_t row, const int64_t *strides) {
  Row &of = rows_.at(size_t(row));
  const Seen &param = paramOf(setOf(row), row);
  of.strides = add(shapes, strides, size_t(param.dims));
  const int64_t *sizes = shapes.data() + param.shape;
  int64_t expected = 1;
  of.isContiguous = true;
  for (int64_t i = param.dims; i-- > 0; expected *= sizes[i])
    of.isContiguous &= sizes[i] == 1 || strides[i] == expected;
}

void Table::part(int64_t row, int64_t first) {
  Row &of = rows_.at(size_t(row));
  of.skipped = first * int64_t(aoti_torch_dtype_element_size(of.type));
}

const SetRows &Table::setOf(int64_t row) const {
  for (const SetRows &set : sets)
    if (row >= set.first && row < set.last)
      return set;
  throw Refusal(ALTGRAD_INVALID, "there is no row " + std::to_string(row));
}
