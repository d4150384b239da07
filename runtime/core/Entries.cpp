// What dicts of Python hold, by the identity of every key and value. A loop in
// Python would make an object for each dict, and Python's collector would come.
#include "Entries.h"

#include "Python.h"
#include "Threads.h"

#include <atomic>

using namespace altgrad::core;

Entries::Entries(void *state, void *const *inner, int64_t count) {
  void *key, *held, *name, *value;
  intptr_t at = 0;
  while (python().next(state, &at, &key, &held)) {
    const bool isDict = int64_t(outer.size()) < count && held == inner[outer.size()];
    outer.push_back({key, isDict ? held : nullptr, words.size()});
    intptr_t to = 0;
    while (isDict && python().next(held, &to, &name, &value))
      words.insert(words.end(), {name, value});
  }
  if (int64_t(outer.size()) != count)
    throw Refusal(ALTGRAD_INVALID, "a state changed while it was read");
}

bool Entries::isSame(const Outer &of, size_t end) const {
  void *const *known = words.data() + of.first, *const *last = words.data() + end;
  void *name, *value;
  for (intptr_t at = 0; python().next(of.held, &at, &name, &value); known += 2)
    if (known == last || known[0] != name || known[1] != value)
      return false;
  return known == last;
}

// Hints alone: the words of a dict in front have the address of its entries.
void Entries::prefetchDict(size_t place, size_t end) const {
  constexpr size_t ahead = 6;
  if (place + 2 * ahead < end)
    prefetch(outer[place + 2 * ahead].held);
  if (place + ahead >= end || !outer[place + ahead].held)
    return;
  auto *dict = static_cast<const uintptr_t *>(outer[place + ahead].held);
  for (ptrdiff_t offset : {0, 64, 128})
    prefetch(reinterpret_cast<const void *>(dict[4]), offset);
}

// Whoever calls holds Python's lock, so that no code of Python's runs meanwhile.
bool Entries::areSame(void *state) const {
  void *key, *held;
  size_t place = 0;
  for (intptr_t at = 0; python().next(state, &at, &key, &held); ++place)
    if (place == outer.size() || outer[place].key != key || (outer[place].held && outer[place].held != held))
      return false;
  std::atomic<bool> same = place == outer.size();
  int32_t failed = onThreads(int64_t(place), [&](int64_t begin, int64_t end) {
    for (size_t i = size_t(begin); i < size_t(end) && same; ++i) {
      prefetchDict(i, size_t(end));
      if (outer[i].held && !isSame(outer[i], i + 1 < outer.size() ? outer[i + 1].first : words.size()))
        same = false;
    }
  });
  return same && !failed;
}
