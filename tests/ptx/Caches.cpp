// Sectors of the caches: as wide as what the memory sends at once.
#include "Caches.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

void Caches::begin(uint64_t blocks) {
  uint64_t count = held.size();
  for (uint32_t i = 0; i < (everywhere ? count : std::min(blocks, count)); ++i)
    empty(processorOf(i, false));
}

void Caches::load(uint32_t processor, Region &region, uint64_t address,
                  unsigned bytes, const Stamp &now) {
  uint64_t sector = address / sectorBytes, begin = sector * sectorBytes;
  Sector &here = held[processor][sector];
  auto bitsOf = [&](uint64_t from, uint64_t to) {
    return ((uint64_t(1) << (to - from)) - 1) << (from - begin);
  };
  if (~here.isHere & bitsOf(address, address + bytes)) {
    uint64_t first = std::max(begin, region.base);
    uint64_t last =
        std::min(begin + sectorBytes, region.base + region.size);
    region.peek(first, here.bytes.data() + (first - begin), last - first);
    here.isHere |= bitsOf(first, last);
    here.launch = now.launch;
    here.line = now.line;
    return;
  }
  uint8_t memory[sectorBytes];
  region.read(address, bytes, memory);
  if (std::memcmp(memory, here.bytes.data() + (address - begin), bytes) == 0)
    return;
  throw Fault{FaultKind::Stale,
              "read of " + std::to_string(bytes) + " bytes at " +
                  hex(address) + " in '" + region.name +
                  "': the cache of processor " + std::to_string(processor) +
                  " has others since line " + std::to_string(here.line) +
                  (here.launch == now.launch
                       ? ""
                       : " of a launch " +
                             std::to_string(now.launch - here.launch) +
                             " before this one") +
                  "; a load that is weak or .cta sees what has changed only behind a wait, an "
                  "acquiring fence or the beginning of an ordinary launch"};
}
