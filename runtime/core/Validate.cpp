// Validates before every step that each tensor is as it was bound, and finds where
// the gradients are now.
#include "Python.h"
#include "TableImpl.h"
#include "Threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

using namespace altgrad::core;

// std::equal would call memcmp for these few words, and an early end would take
// one after the other.
template <typename Word> static bool areSame(const Word *known, const Word *now, int64_t count) {
  Word differs = 0;
  for (int64_t i = 0; i < count; ++i)
    differs |= known[i] ^ now[i];
  return differs == 0;
}

// Whether not a word of the object has changed: then neither have dtype, sizes
// and strides, and torch need not be asked for them.
bool Table::isUntouched(const Fingerprint &known) const {
  const uint64_t *now = wordsOf(known.handle);
  return known.dims <= objects().dims && areSame(known.own, now, ownWords) &&
         areSame(words.data() + known.shared, now + ownWords, sharedWords);
}

// The layout of an object never changes.
bool Table::isSame(const Fingerprint &known) const {
  const int64_t *shape = shapes.data() + known.shape;
  if (objectOf(known.handle) != known.object)
    return false;
  if (isUntouched(known))
    return writableOf(known.handle) == known.data;
  return typeOf(known.handle) == known.type && dimsOf(known.handle) == known.dims &&
         areSame(shape, sizesOf(known.handle), known.dims) &&
         areSame(shape + known.dims, stridesOf(known.handle), known.dims) && writableOf(known.handle) == known.data;
}

// Whether the elements of a gradient lie in memory as those of its row are
// visited; the stride of a dimension of one element says nothing.
bool Table::reads(int64_t row, const Fingerprint &param, Handle grad) const {
  const Row &of = rows_[size_t(row)];
  const int64_t *sizes = shapes.data() + param.shape;
  if (!isStrided(grad) || typeOf(grad) != of.type || dimsOf(grad) != param.dims ||
      !areSame(sizes, sizesOf(grad), param.dims))
    return false;
  const int64_t *strides = shapes.data() + of.strides, *now = stridesOf(grad);
  if (areSame(strides, now, param.dims) || of.numel == 0)
    return true;
  if (of.isContiguous)
    return isContiguous(grad);
  for (int64_t i = 0; i < param.dims; ++i)
    if (sizes[i] != 1 && strides[i] != now[i])
      return false;
  return true;
}

// Where a row's part of a gradient lies; null where it has no memory.
const void *Table::placeOf(int64_t row, Handle grad) const {
  auto *begin = static_cast<const char *>(readableOf(grad));
  return begin ? begin + rows_[size_t(row)].skipped : nullptr;
}

void Table::validateRow(const SetRows &set, int64_t row, Findings &findings) {
  const Fingerprint *first = &paramOf(set, row);
  const Handle grad = now[size_t(row)];
  for (size_t i = 0; i < set.width; ++i) {
    findings.stale |= !isSame(first[i]);
    counters[size_t(first - fingerprints.data()) + i] = counterOf(first[i].handle);
  }
  present_[size_t(row)] = grad != nullptr;
  const void *&data = grads[size_t(row)];
  const void *place = nullptr;
  if (grad) {
    const bool plain = keys && keysOf(grad) == keys;
    const bool fits = (plain || findings.trusted) && reads(row, *first, grad);
    place = fits ? placeOf(row, grad) : nullptr;
    if (!fits || (!place && rows_[size_t(row)].numel != 0)) {
      findings.odd = true;
      return;
    }
    require(aoti_torch_new_tensor_handle(grad, &taken[size_t(row)]));
  }
  if (place == data)
    return;
  if (place && !(onSameDevice(grad, first->handle) && isWithin(grad))) {
    findings.odd = true;
    return;
  }
  data = place;
  findings.moved = true;
}

// In blocks, each of which is fetched one indirection further while another one
// is looked at.
void Table::validate(const SetRows &set, int64_t begin, int64_t end, Findings &findings) {
  constexpr int64_t block = 8;
  auto rows = [&](int64_t first, auto visit) {
    for (int64_t row = std::max(first, begin); row < std::min(first + block, end); ++row)
      visit(row);
  };
  auto tensors = [&](int64_t row, auto visit) {
    const Fingerprint *first = &paramOf(set, row);
    for (size_t i = 0; i < set.width; ++i)
      visit(first[i].handle);
  };
  auto gradient = [&](int64_t row, auto visit) {
    if (Handle grad = now[size_t(row)])
      visit(grad);
  };
  for (int64_t head = begin; head < end + 5 * block; head += block) {
    rows(head, [&](int64_t row) { tensors(row, [](Handle tensor) { prefetch(tensor); }); });
    rows(head - block, [&](int64_t row) { tensors(row, prefetchObject); });
    rows(head - 2 * block, [&](int64_t row) {
      tensors(row, prefetchStorage);
      tensors(row, prefetchVersion);
      prefetchAutograd(paramOf(set, row).handle);
    });
    rows(head - 3 * block, [&](int64_t row) {
      now[size_t(row)] = findings.given ? findings.given[row] : gradientIn(paramOf(set, row).handle);
      gradient(row, prefetchObject);
    });
    rows(head - 4 * block, [&](int64_t row) { gradient(row, prefetchStorage); });
    rows(head - 5 * block, [&](int64_t row) { validateRow(set, row, findings); });
  }
}

int32_t Table::validate(const Handle *given, bool trusted) {
  letGo();
  if (!std::exchange(checked, true))
    checkStates();
  const bool others = !given && std::any_of(idle.begin(), idle.end(), gradientIn);
  std::atomic<bool> stale = false, odd = false, anyMoved = moved;
  int32_t failed = onThreads(rows(), [&](int64_t begin, int64_t end) {
    Findings findings{given, trusted};
    for (const SetRows &set : sets)
      if (int64_t first = std::max(begin, set.first), last = std::min(end, set.last); first < last)
        validate(set, first, last, findings);
    stale = stale | findings.stale;
    odd = odd | findings.odd;
    anyMoved = anyMoved | findings.moved;
  });
  if (failed)
    throw Refusal(ALTGRAD_SYSTEM, "torch's threads have failed");
  moved = anyMoved;
  if (stale || odd || others || !watches)
    letGo();
  // Before what comes: rows of tensors that are not as they were cannot be kept.
  if (stale || !watches)
    return ALTGRAD_STALE;
  if (others)
    return ALTGRAD_OTHER_GRADS;
  if (odd)
    return ALTGRAD_ODD;
  // A set that no gradient is in would still count draws, and decide how torch rounds a norm.
  auto isIn = [&](const SetRows &set) {
    return set.first == set.last || memchr(present_.data() + set.first, 1, size_t(set.last - set.first));
  };
  if (!std::all_of(sets.begin(), sets.end(), isIn)) {
    letGo();
    return ALTGRAD_OTHER_GRADS;
  }
  nextPhase = rowsRun = 0;
  return ALTGRAD_FRESH;
}

// In the caller's thread: who lets go of a last one may need Python's lock.
void Table::letGo() {
  constexpr size_t ahead = 8;
  for (size_t row = 0; row < taken.size(); ++row) {
    if (row + ahead < taken.size() && taken[row + ahead])
      prefetch(objectOf(taken[row + ahead]));
    if (taken[row])
      aoti_torch_delete_tensor_object(std::exchange(taken[row], nullptr));
  }
}

void Table::raiseVersions() {
  constexpr size_t ahead = 16;
  for (const SetRows &set : sets)
    for (int64_t row = set.first; row < set.last; ++row) {
      void *const *first = &counters[size_t(&paramOf(set, row) - fingerprints.data())];
      for (size_t i = 0; present_[size_t(row)] && !rows_[size_t(row)].skipped && i < set.width; ++i) {
        if (first + i + ahead < counters.data() + counters.size())
          prefetch(first[i + ahead]);
        raiseVersion(first[i]);
      }
    }
}

void Table::bindPresent() {
  if (present_ == takesPart)
    return;
  check(altgrad_bind_present(plan, present_.data(), rows()));
  takesPart = present_;
  summed.clear();
  firstChunks.clear(); // they are counted over those that take part
}

void Table::bindGradients() {
  if (!moved)
    return;
  for (const SetRows &set : sets)
    check(altgrad_bind_stream(plan, set.grad.c_str(), const_cast<void *const *>(grads.data()) + set.first,
                              set.last - set.first));
  moved = false;
}
