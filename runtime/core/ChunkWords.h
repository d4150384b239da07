// What the sweeps of a step leave of each chunk, in its workspace.
#ifndef ALTGRAD_CORE_CHUNKWORDS_H
#define ALTGRAD_CORE_CHUNKWORDS_H

#include "altgrad/altgrad.h"

#include <algorithm>
#include <vector>

namespace altgrad::core {

struct ChunkWords {
  uint32_t *first = nullptr;
  int64_t count = 0, chunks = 0; // words of a chunk, and chunks

  altgrad_status find(altgrad_plan *plan, void *workspace) {
    uint64_t offset = 0;
    altgrad_status status = altgrad_partials(plan, &offset, &count, &chunks);
    void *place = static_cast<char *>(workspace) + offset;
    first = static_cast<uint32_t *>(place);
    return status;
  }
  uint32_t &at(int64_t word, int64_t chunk) const { return first[word * chunks + chunk]; }
  std::vector<uint32_t> of(int64_t chunk) const {
    std::vector<uint32_t> words;
    for (int64_t word = 0; word < count; ++word)
      words.push_back(at(word, chunk));
    return words;
  }
  void clear(int64_t begin, int64_t end) const {
    for (int64_t word = 0; word < count; ++word)
      std::fill(&at(word, begin), &at(word, end), 0);
  }
  // A chunk that shows whether its gradient was changed without a trace in its
  // version: one with a sum, which is neither 0 nor a verdict's 1.
  int64_t telling(int64_t begin, int64_t end) const {
    for (int64_t word = 0; word < count; ++word)
      for (int64_t chunk = begin; chunk < end; ++chunk)
        if (at(word, chunk) > 1)
          return chunk;
    return begin;
  }
};

} // namespace altgrad::core

#endif // ALTGRAD_CORE_CHUNKWORDS_H
