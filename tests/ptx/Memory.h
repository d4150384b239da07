// Regions of simulated memory with a shadow: initialised bytes and who touched
// them last.
#ifndef ALTGRAD_TESTS_PTX_MEMORY_H
#define ALTGRAD_TESTS_PTX_MEMORY_H

#include "Fault.h"
#include "Ordering.h"

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace ptx {

enum RegionFlags : unsigned {
  RegionReadOnly = 1,
  RegionUninitialised = 2, // every byte must be written before it is read
  RegionNoRaces = 4,       // private or constant: nobody else can touch it
  RegionVariable = 8       // a module's, which no kernel has written yet
};

struct Cell {
  Stamp write, reads[2];
};

struct ShadowPage {
  static constexpr unsigned Bytes = 1024;
  std::unique_ptr<uint8_t[]> data; // only when no host buffer stands behind
  uint64_t initialised[Bytes / 64] = {};
  uint32_t launch = 0; // stamps of older launches are void
  unsigned granule = 0;
  std::vector<Cell> cells;
};

/// A contiguous range of addresses. Backed by a host buffer, or sparse: pages
/// come into being when touched, so 2^33 elements cost nothing.
class Region {
public:
  Region(std::string name, uint64_t base, uint64_t size, uint8_t *host,
         unsigned flags);

  bool contains(uint64_t address, uint64_t bytes) const {
    return address >= base && bytes <= size && address - base <= size - bytes;
  }

  /// Aligned accesses of at most 32 bytes; they never cross a page.
  void read(uint64_t address, unsigned bytes, uint8_t *out);
  void write(uint64_t address, unsigned bytes, const uint8_t *in);
  /// Throws uninitialised-memory; `bytes` as in read.
  void checkInitialised(uint64_t address, unsigned bytes);
  /// Throws the race fault when `access` is unordered with an earlier one.
  void checkRace(uint64_t address, unsigned bytes, const Access &access);

  /// A pending write is done, for whoever comes after `now`.
  void settle(uint64_t address, unsigned bytes, const Stamp &now);

  /// Host side: any length, no checks but the range.
  void poke(uint64_t address, const uint8_t *in, uint64_t bytes);
  void peek(uint64_t address, uint8_t *out, uint64_t bytes);
  void forgetInitialised();

  const std::string name;
  const uint64_t base, size;
  unsigned flags;
  FaultKind raceKind = FaultKind::GlobalRace;

private:
  ShadowPage &page(uint64_t address);
  void markInitialised(uint64_t address, unsigned bytes);
  static void split(ShadowPage &, unsigned granule);
  void race(uint64_t address, const Access &, const Stamp &, bool otherWrote);

  uint8_t *const host;
  std::unordered_map<uint64_t, std::unique_ptr<ShadowPage>> pages;
  uint64_t lastIndex = ~uint64_t(0);
  ShadowPage *lastPage = nullptr;
};

/// What lies beyond the regions of a Memory, which asks it last.
struct Beyond {
  virtual ~Beyond() = default;
  virtual Region *find(uint64_t address) = 0;
  virtual std::string describe(uint64_t address) = 0;
};

/// The global address space of a virtual machine.
class Memory {
public:
  Beyond *beyond = nullptr;

  /// Throws std::invalid_argument when the range overlaps another or wraps.
  Region &map(std::string name, uint64_t base, uint64_t size, uint8_t *host,
              unsigned flags);
  bool unmap(uint64_t base);
  Region *find(uint64_t address) const;
  /// "16 bytes past the end of 'p' [0x.., 0x..)" or "no region is near".
  std::string describe(uint64_t address) const;

private:
  std::map<uint64_t, std::unique_ptr<Region>> regions;
};

std::string hex(uint64_t value);

} // namespace ptx

#endif
