// Remembers tensors that were bound.
#include "TableImpl.h"

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
    if (info.kind != ALTGRAD_SWEEP || info.written != 0 || sets[set].sum >= 0 ||
        info.read != bytesOf(program.sets[set].grad->format))
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

Fingerprint Table::fingerprintOf(Handle handle) {
  if (!isStrided(handle))
    throw Refusal(ALTGRAD_INVALID, "a tensor of the step is not strided");
  int64_t dims = dimsOf(handle);
  std::vector<int64_t> shape(sizesOf(handle), sizesOf(handle) + dims);
  shape.insert(shape.end(), stridesOf(handle), stridesOf(handle) + dims);
  checkWithin(handle);
  Fingerprint now{handle, objectOf(handle), writableOf(handle), {}, 0, 0, 0, 0};
  if (objects().dims >= 0) {
    std::copy_n(wordsOf(handle), ownWords, now.own);
    now.shared = add(words, wordsOf(handle) + ownWords, sharedWords);
  }
  now.shape = add(shapes, shape.data(), shape.size());
  now.dims = int32_t(dims);
  now.type = typeOf(handle);
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

Table::Table(altgrad_bundle *bundle, altgrad_plan *given, const altgrad_core_row *rows, int64_t count, int64_t groups)
    : plan(given) {
  const Program program(bundle);
  readSets(program);
  findSums(bundle, program);
  findRows(bundle);
  for (int64_t row = 0; row < count; ++row)
    addRow(program, rows[row]);
  check(altgrad_bind_tensors(plan, declared_.data(), count, groups));
  bindTensors(program);
  int64_t chunks = 0, own = 0;
  for (const Row &row : rows_)
    own += (row.numel + ALTGRAD_CHUNK - 1) / int64_t(ALTGRAD_CHUNK);
  check(altgrad_partials(plan, nullptr, nullptr, &chunks));
  inUnits = chunks != own;
  counters.assign(fingerprints.size(), nullptr); // a look finds them
  grads.assign(rows_.size(), nullptr);
  now.assign(rows_.size(), nullptr);
  taken = now;
  present_.assign(rows_.size(), 1);
  takesPart = present_;
  // A negative view is a parameter like others, but no plain gradient.
  if (!fingerprints.empty())
    keys = keysOf(fingerprints[0].handle) & ~objects().negative;
  if (!fingerprints.empty() && multiplies(bundle))
    multiplyOn(ask<int32_t>(aoti_torch_get_device_type, fingerprints[0].handle), plan);
}

void Table::factorizeByProducts() const {
  if (!fingerprints.empty())
    core::factorizeByProducts(ask<int32_t>(aoti_torch_get_device_type, fingerprints[0].handle), plan);
}

const SetRows &Table::setOf(int64_t row) const {
  for (const SetRows &set : sets)
    if (row >= set.first && row < set.last)
      return set;
  throw Refusal(ALTGRAD_INVALID, "there is no row " + std::to_string(row));
}
