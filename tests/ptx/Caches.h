// What the processors' caches answer weak loads with. They are not coherent:
// nothing but the beginning of an ordinary launch, a wait for the launch before
// or an acquiring fence empties one.
#ifndef ALTGRAD_TESTS_PTX_CACHES_H
#define ALTGRAD_TESTS_PTX_CACHES_H

#include "Memory.h"

#include <array>
#include <unordered_map>

namespace ptx {

class Caches {
public:
  explicit Caches(uint32_t processors) : held(processors) {}

  /// The blocks of a dependent launch go to the other end: where they run is
  /// nothing that a kernel may count on.
  uint32_t processorOf(uint32_t block, bool follows) const {
    uint32_t count = uint32_t(held.size()), from = block % count;
    return follows ? count - 1 - from : from;
  }
  /// A weak load, or one of the block's scope. Throws the stale fault where the cache has had the bytes
  /// since they were others.
  void load(uint32_t processor, Region &, uint64_t address, unsigned bytes,
            const Stamp &now);
  /// What this processor has itself stored, or read past its cache.
  void drop(uint32_t processor, uint64_t address) {
    held[processor].erase(address / sectorBytes);
  }
  void empty(uint32_t processor) {
    if (!held[processor].empty()) // a clear looks at every bucket
      held[processor].clear();
  }
  /// An ordinary launch of so many blocks.
  void begin(uint64_t blocks);
  /// Whether that empties the caches of processors without a block of it, too.
  bool everywhere = true;

private:
  static constexpr unsigned sectorBytes = 32;
  struct Sector {
    std::array<uint8_t, sectorBytes> bytes;
    uint64_t isHere = 0; // by byte: two regions may share a sector
    uint32_t launch;
    unsigned line;
  };
  std::vector<std::unordered_map<uint64_t, Sector>> held;
};

} // namespace ptx

#endif
