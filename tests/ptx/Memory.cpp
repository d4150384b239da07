// Paged shadows: initialised bits per byte, access stamps per granule.
#include "Memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace ptx;

std::string ptx::hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(value));
  return text;
}

Region::Region(std::string name, uint64_t base, uint64_t size, uint8_t *host,
               unsigned flags)
    : name(std::move(name)), base(base), size(size), flags(flags), host(host) {}

// Pages follow absolute addresses, not offsets: an aligned access then stays
// in one page wherever the region begins.
ShadowPage &Region::page(uint64_t address) {
  uint64_t index = address / ShadowPage::Bytes;
  if (index == lastIndex)
    return *lastPage;
  auto &slot = pages[index];
  if (!slot) {
    slot = std::make_unique<ShadowPage>();
    if (!host) {
      slot->data = std::make_unique<uint8_t[]>(ShadowPage::Bytes);
      std::memset(slot->data.get(), 0, ShadowPage::Bytes);
    }
  }
  lastIndex = index;
  lastPage = slot.get();
  return *slot;
}

void Region::read(uint64_t address, unsigned bytes, uint8_t *out) {
  const uint8_t *from =
      host ? host + (address - base)
           : page(address).data.get() + address % ShadowPage::Bytes;
  // The host buffer is little-endian, as the device is.
  std::memcpy(out, from, bytes);
}

void Region::write(uint64_t address, unsigned bytes, const uint8_t *in) {
  uint8_t *to = host ? host + (address - base)
                     : page(address).data.get() + address % ShadowPage::Bytes;
  std::memcpy(to, in, bytes);
  if (flags & RegionUninitialised)
    markInitialised(address, bytes);
}

/// Aligned accesses of up to 32 bytes lie within one 64-bit word of flags.
static uint64_t bitsFor(unsigned bytes, unsigned first) {
  return ((uint64_t(1) << bytes) - 1) << (first % 64);
}

void Region::markInitialised(uint64_t address, unsigned bytes) {
  unsigned first = address % ShadowPage::Bytes;
  page(address).initialised[first / 64] |= bitsFor(bytes, first);
}

void Region::checkInitialised(uint64_t address, unsigned bytes) {
  if (!(flags & RegionUninitialised))
    return;
  unsigned first = address % ShadowPage::Bytes;
  uint64_t wanted = bitsFor(bytes, first);
  uint64_t missing = wanted & ~page(address).initialised[first / 64];
  if (!missing)
    return;
  unsigned byte = unsigned(__builtin_ctzll(missing)) - first % 64;
  throw Fault{FaultKind::UninitialisedMemory,
              "byte " + hex(address + byte) + " of '" + name +
                  "' is read before it is written"};
}

void Region::forgetInitialised() {
  for (auto &entry : pages)
    std::fill(std::begin(entry.second->initialised),
              std::end(entry.second->initialised), 0);
}

void Region::split(ShadowPage &p, unsigned granule) {
  // Finer cells start as copies: the history of a part is that of the whole.
  if (!p.granule) {
    p.cells.resize(ShadowPage::Bytes / granule);
  } else {
    std::vector<Cell> finer;
    finer.reserve(ShadowPage::Bytes / granule);
    for (const Cell &cell : p.cells)
      finer.insert(finer.end(), p.granule / granule, cell);
    p.cells = std::move(finer);
  }
  p.granule = granule;
}

void Region::race(uint64_t address, const Access &access, const Stamp &other,
                  bool otherWrote) {
  const Stamp &now = access.clock->now;
  const char *whose = "";
  if (other.launch != now.launch)
    whose = other.launch == access.clock->next ? " of the next launch"
                                               : " of the launch before";
  throw Fault{raceKind, std::string(access.isWrite ? "write" : "read") +
                            " at " + hex(address) + " in '" + name +
                            "' by block " + std::to_string(now.block) +
                            " thread " + std::to_string(now.thread) +
                            " is unordered with the " +
                            (other.isPending ? "pending write"
                             : otherWrote    ? "write"
                                             : "read") +
                            " by block " +
                            std::to_string(other.block) + " thread " +
                            std::to_string(other.thread) + " at line " +
                            std::to_string(other.line) + whose};
}

static bool conflicts(const Access &access, const Stamp &other) {
  const Clock &clock = *access.clock;
  if (other.launch != clock.now.launch)
    return clock.overlaps(other.launch);
  // Not even for the thread itself: somebody else does its copy.
  if (other.isPending)
    return true;
  if (clock.isOrderedAfter(other))
    return false;
  // The narrower of the two scopes must include the other thread.
  bool sameBlock = other.block == clock.now.block;
  Strength needed = sameBlock ? Strength::StrongCta : Strength::StrongGpu;
  return access.strength < needed || other.strength < needed;
}

void Region::checkRace(uint64_t address, unsigned bytes, const Access &access) {
  ShadowPage &p = page(address);
  const Stamp &now = access.clock->now;
  // Lazily: a launch need not visit pages it never touches.
  if (p.launch != now.launch) {
    if (p.launch != access.clock->before && p.launch != access.clock->next) {
      p.granule = 0;
      p.cells.clear();
    }
    p.launch = now.launch;
  }
  // The granule is the smallest access the page has seen, so that a cell is
  // always touched as a whole.
  unsigned granule = std::min(bytes, 16u);
  if (!p.granule || p.granule > granule)
    split(p, granule);
  unsigned first = address % ShadowPage::Bytes / p.granule;
  unsigned count = bytes / p.granule;
  for (unsigned i = first; i < first + count; ++i) {
    Cell &cell = p.cells[i];
    if (conflicts(access, cell.write))
      race(address, access, cell.write, true);
    if (access.isWrite) {
      for (const Stamp &read : cell.reads)
        if (conflicts(access, read))
          race(address, access, read, false);
      cell.write = now;
      cell.write.strength = access.strength;
      cell.write.isPending = access.isPending;
      continue;
    }
    // Two readers of different threads suffice: a writer is not both of them.
    // A reader of another block is kept, it is the one barriers cannot order.
    bool isMine = cell.reads[0].launch == now.launch &&
                  cell.reads[0].block == now.block &&
                  cell.reads[0].thread == now.thread;
    bool keepsSecond = cell.reads[0].block == now.block &&
                       cell.reads[1].block != now.block &&
                       !access.clock->isOrderedAfter(cell.reads[1]);
    if (!isMine && !keepsSecond)
      cell.reads[1] = cell.reads[0];
    cell.reads[0] = now;
    cell.reads[0].strength = access.strength;
  }
}

void Region::settle(uint64_t address, unsigned bytes, const Stamp &now) {
  ShadowPage &p = page(address);
  if (p.launch != now.launch) // races are not looked for
    return;
  unsigned first = address % ShadowPage::Bytes / p.granule;
  for (unsigned i = first; i < first + bytes / p.granule; ++i)
    p.cells[i].write = now;
}

template <class Visit>
/// Calls visit(address, bytes done before, bytes here) for each page touched.
static void byPage(uint64_t address, uint64_t bytes, Visit visit) {
  for (uint64_t done = 0; done < bytes;) {
    uint64_t within = (address + done) % ShadowPage::Bytes;
    uint64_t n = std::min(ShadowPage::Bytes - within, bytes - done);
    visit(address + done, done, n);
    done += n;
  }
}

void Region::poke(uint64_t address, const uint8_t *in, uint64_t bytes) {
  byPage(address, bytes, [&](uint64_t at, uint64_t done, uint64_t n) {
    uint8_t *to = host ? host + (at - base)
                       : page(at).data.get() + at % ShadowPage::Bytes;
    std::memcpy(to, in + done, n);
    if (flags & RegionUninitialised)
      for (uint64_t i = 0; i < n; ++i)
        markInitialised(at + i, 1);
  });
}

void Region::peek(uint64_t address, uint8_t *out, uint64_t bytes) {
  byPage(address, bytes, [&](uint64_t at, uint64_t done, uint64_t n) {
    const uint8_t *from = host ? host + (at - base)
                               : page(at).data.get() + at % ShadowPage::Bytes;
    std::memcpy(out + done, from, n);
  });
}

Region &Memory::map(std::string name, uint64_t base, uint64_t size,
                    uint8_t *host, unsigned flags) {
  if (size == 0)
    throw std::invalid_argument("a region needs at least one byte");
  // Above 2^63 lie the windows of the other spaces.
  if (base == 0 || base + size < base || (base + size) >= SIZE_MAX / 2)
    throw std::invalid_argument("range " + hex(base) + " + " + hex(size) +
                                " is not a global address range");
  auto next = regions.lower_bound(base);
  if (next != regions.end() && next->first < base + size)
    throw std::invalid_argument("overlaps '" + next->second->name + "'");
  if (next != regions.begin()) {
    Region &before = *std::prev(next)->second;
    if (before.base + before.size > base)
      throw std::invalid_argument("overlaps '" + before.name + "'");
  }
  auto &slot = regions[base];
  slot = std::make_unique<Region>(std::move(name), base, size, host, flags);
  return *slot;
}

bool Memory::unmap(uint64_t base) { return regions.erase(base) != 0; }

Region *Memory::find(uint64_t address) const {
  auto next = regions.upper_bound(address);
  if (next != regions.begin()) {
    Region &r = *std::prev(next)->second;
    if (address - r.base < r.size)
      return &r;
  }
  return beyond ? beyond->find(address) : nullptr;
}

std::string Memory::describe(uint64_t address) const {
  auto next = regions.upper_bound(address);
  std::string text;
  // The nearer neighbour is the buffer that was meant.
  uint64_t best = uint64_t(1) << 20; // farther away tells nothing
  auto consider = [&](const Region &r, uint64_t distance, const char *where) {
    if (distance > best)
      return;
    best = distance;
    text = std::to_string(distance) + " bytes " + where + " '" + r.name +
           "' [" + hex(r.base) + ", " + hex(r.base + r.size) + ")";
  };
  if (next != regions.end())
    consider(*next->second, next->first - address, "before the start of");
  if (next != regions.begin()) {
    const Region &r = *std::prev(next)->second;
    if (address >= r.base + r.size)
      consider(r, address - (r.base + r.size), "past the end of");
    else
      consider(r, 0, "from the end: the access leaves");
  }
  if (text.empty() && beyond)
    return beyond->describe(address);
  return text.empty() ? "no region is near" : text;
}
