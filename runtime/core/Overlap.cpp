// Finds the tensors of a step that share memory: kernels update all of them at the same time.
#include "Overlap.h"
#include "TableImpl.h"

#include <algorithm>

using namespace altgrad::core;

bool altgrad::core::spansOverlap(std::vector<Span> runs, int64_t written, uint8_t *shared) {
  auto before = [](const Span &one, const Span &other) { return one.begin < other.begin; };
  if (!std::is_sorted(runs.begin(), runs.end(), before))
    std::sort(runs.begin(), runs.end(), before);
  const Span none{0, 0, -1}, *farthest[] = {&none, &none}; // of all, and of those that are written
  bool found = false;
  for (const Span &run : runs) {
    const Span &other = *farthest[run.of >= written];
    if (other.end > run.begin && other.of != run.of) {
      found = true;
      if (!shared)
        return true;
      shared[run.of] = shared[other.of] = 1;
    }
    for (int only : {0, 1})
      if (run.end > farthest[only]->end && (!only || run.of < written))
        farthest[only] = &run;
  }
  return found;
}

Span altgrad::core::spanOf(Handle tensor, int64_t of, bool written) {
  if (numelOf(tensor) == 0) { // it shares its own object alone
    const auto object = uint64_t(uintptr_t(objectOf(tensor)));
    return {object, object + 1, of};
  }
  const auto begin = uint64_t(uintptr_t(written ? writableOf(tensor) : readableOf(tensor)));
  return {begin, begin + (begin ? uint64_t(extentOf(tensor)) : 0), of};
}

// Dimensions whose elements are neighbours are one run; each index of the others has its own.
static void addRuns(Handle tensor, const Span &span, std::vector<Span> &runs) {
  std::vector<std::pair<int64_t, int64_t>> order; // strides and sizes
  for (int64_t i = 0, dims = dimsOf(tensor); i < dims; ++i)
    if (sizesOf(tensor)[i] > 1 && stridesOf(tensor)[i] != 0)
      order.emplace_back(stridesOf(tensor)[i] * itemSizeOf(typeOf(tensor)), sizesOf(tensor)[i]);
  std::sort(order.begin(), order.end());
  int64_t length = itemSizeOf(typeOf(tensor));
  std::vector<uint64_t> begins{span.begin};
  for (auto [stride, size] : order) {
    if (begins.size() == 1 && stride == length) {
      length *= size;
      continue;
    }
    for (int64_t last = int64_t(begins.size()), place = last; place < last * size; ++place)
      begins.push_back(begins[size_t(place - last)] + uint64_t(stride));
  }
  for (uint64_t begin : begins)
    runs.push_back({begin, begin + uint64_t(length), span.of});
}

// From the first element to the last most are apart already; columns of one matrix are, too.
bool altgrad::core::tensorsOverlap(const std::vector<Handle> &tensors, int64_t written, uint8_t *shared) {
  std::vector<Span> runs;
  for (size_t i = 0; i < tensors.size(); ++i)
    runs.push_back(spanOf(tensors[i], int64_t(i), int64_t(i) < written));
  std::vector<uint8_t> near(tensors.size());
  if (!spansOverlap(runs, written, near.data()))
    return false;
  std::vector<Span> exact;
  for (const Span &span : runs)
    if (near[size_t(span.of)])
      addRuns(tensors[size_t(span.of)], span, exact);
  return spansOverlap(std::move(exact), written, shared);
}

altgrad_status altgrad_core_overlap(const AtenTensorHandle *given, int64_t count, int64_t written, uint8_t *shared,
                                    int64_t *pair) {
  return guarded([&] {
    const std::vector<Handle> tensors(given, given + count);
    std::fill(shared, shared + count, 0);
    std::fill(pair, pair + 2, -1);
    if (!tensorsOverlap(tensors, written, shared))
      return;
    for (pair[0] = 0; pair[0] < count; ++pair[0])
      for (pair[1] = pair[0] + 1; shared[pair[0]] && pair[1] < count; ++pair[1])
        if (shared[pair[1]] && tensorsOverlap({tensors[size_t(pair[0])], tensors[size_t(pair[1])]}, written - pair[0]))
          return;
  });
}

// What the rows write, each tensor once.
std::vector<Handle> Table::writes() const {
  std::vector<Handle> tensors;
  for (const SetRows &set : sets)
    for (int64_t row = set.first; row < set.last; ++row)
      for (size_t i = 0; !rows_[size_t(row)].skipped && i < set.width; ++i)
        tensors.push_back((&paramOf(set, row))[i].handle);
  return tensors;
}

// A gradient that lies where it lay before is not looked at again.
bool Table::areDisjoint() {
  if (apart.empty()) {
    for (Handle tensor : writes())
      written.push_back(spanOf(tensor));
    std::sort(written.begin(), written.end(),
              [](const Span &one, const Span &other) { return one.begin < other.begin; });
    for (size_t i = 1; i < written.size(); ++i) // of all up to here
      written[i].end = std::max(written[i].end, written[i - 1].end);
    apart.resize(rows_.size());
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (!grads[row] || grads[row] == apart[row])
      continue;
    const auto begin = uint64_t(uintptr_t(grads[row]));
    const auto end = begin + uint64_t(rows_[row].numel * itemSizeOf(rows_[row].type));
    auto next = std::partition_point(written.begin(), written.end(), [&](const Span &of) { return of.begin < end; });
    if (next != written.begin() && (next - 1)->end > begin) {
      std::vector<Handle> tensors = writes();
      tensors.push_back(taken[row]);
      if (tensorsOverlap(tensors, int64_t(tensors.size()) - 1))
        return false;
    }
    apart[row] = grads[row];
  }
  return true;
}

int32_t altgrad_table_no_overlap(altgrad_table *table) {
  return guarded<int32_t>(-1, [&] { return reinterpret_cast<Table *>(table)->areDisjoint(); });
}
