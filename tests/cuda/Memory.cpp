// Memory of devices, pinned memory, and memory of this process that a kernel
// may touch: who owns which address, and why another one must not.
#include "Fake.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace fakecuda;

namespace {

// Addresses are never given out twice, so that a freed pointer stays one.
constexpr uint64_t arenaBytes = uint64_t(1) << 38, page = 4096;
// Between allocations; a kernel's access to it is nobody's.
constexpr uint64_t gap = 16 * page;

enum Kind { DeviceMemory, Pinned, Mapped };

struct Range {
  Kind kind;
  int device; // -1: any
  bool live = true;
  std::unique_ptr<ptx::Region> region;
};

struct Arena {
  uint64_t base = 0, used = 0;
  uint64_t alive = 0; // bytes
};

struct Mapping {
  uint64_t begin, end;
  bool readable, writable;
};

struct Ranges {
  std::map<uint64_t, Range> all; // by address
  std::map<int, Arena> arenas;
  int opened = 0;
  // What /proc/self/maps said, for one opening, and regions made of it.
  std::vector<Mapping> host;
  std::map<uint64_t, std::unique_ptr<ptx::Region>> hostRegions;
};

Ranges &ranges() {
  static Ranges *all = new Ranges;
  return *all;
}

std::string ownerName(int device) {
  return device < 0 ? "pinned memory" : "cuda:" + std::to_string(device);
}

Arena &arenaOf(int device) {
  Arena &arena = ranges().arenas[device];
  if (!arena.base) {
    void *room = mmap(nullptr, arenaBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
      perror("fakecuda: no room for the addresses of a device");
      abort();
    }
    arena.base = uint64_t(room);
  }
  return arena;
}

void protect(const ptx::Region &region, int how) {
  uint64_t first = region.base / page * page;
  uint64_t last = (region.base + region.size + page - 1) / page * page;
  mprotect((void *)first, last - first, how);
}

void protectDevices(int how) {
  for (auto &[base, range] : ranges().all)
    if (range.kind == DeviceMemory && range.live)
      protect(*range.region, how);
}

std::pair<const uint64_t, Range> *rangeAt(uint64_t address) {
  auto &all = ranges().all;
  auto next = all.upper_bound(address);
  if (next == all.begin())
    return nullptr;
  auto &found = *std::prev(next);
  return address - found.first < found.second.region->size ? &found : nullptr;
}

bool isOfArena(uint64_t address) {
  for (auto &[device, arena] : ranges().arenas)
    if (address - arena.base < arenaBytes)
      return true;
  return false;
}

// Once for every launch in a process with a thousand libraries: no streams.
void readMappings() {
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  static std::string text;
  text.clear();
  static char part[1 << 16];
  for (ssize_t got; (got = read(file, part, sizeof part)) > 0;)
    text.append(part, size_t(got));
  close(file);
  for (const char *line = text.c_str(); *line;) {
    char *end = nullptr;
    uint64_t first = strtoul(line, &end, 16), last = strtoul(end + 1, &end, 16);
    ranges().host.push_back({first, last, end[1] == 'r', end[2] == 'w'});
    const char *newline = strchr(end, '\n');
    line = newline ? newline + 1 : "";
  }
}

// The part of this process's memory around an address, when all of it may be
// touched; no part of it is anything that is known by name.
ptx::Region *hostRegion(uint64_t address) {
  Ranges &r = ranges();
  auto next = r.hostRegions.upper_bound(address);
  if (next != r.hostRegions.begin()) {
    ptx::Region &region = *std::prev(next)->second;
    if (region.contains(address, 1))
      return &region;
  }
  const bool isNew = r.host.empty();
  if (isNew)
    readMappings();
  for (const Mapping &mapping : r.host) {
    if (address < mapping.begin || address >= mapping.end || !mapping.readable)
      continue;
    uint64_t begin = mapping.begin, end = mapping.end;
    auto above = r.all.upper_bound(address);
    if (above != r.all.end())
      end = std::min(end, above->first);
    if (above != r.all.begin()) {
      auto &below = *std::prev(above);
      begin = std::max(begin, below.first + below.second.region->size);
    }
    // Regions of an earlier opening are in use: a mapping that has grown gets
    // another one for its new part.
    auto older = r.hostRegions.upper_bound(address);
    if (older != r.hostRegions.end())
      end = std::min(end, older->first);
    if (older != r.hostRegions.begin()) {
      ptx::Region &below = *std::prev(older)->second;
      begin = std::max(begin, below.base + below.size);
    }
    unsigned flags = (mapping.writable ? 0u : unsigned(ptx::RegionReadOnly)) |
                     (state().get("races") ? 0u : unsigned(ptx::RegionNoRaces));
    auto &made = r.hostRegions[begin];
    made = std::make_unique<ptx::Region>("memory of the process", begin,
                                         end - begin, (uint8_t *)begin, flags);
    return made.get();
  }
  if (isNew)
    return nullptr;
  r.host.clear(); // the process may have more memory by now
  return hostRegion(address);
}

void forgetHost() {
  ranges().host.clear();
  ranges().hostRegions.clear();
}

// Reading the maps takes longer than a small kernel: regions stay for as long
// as nothing in them is unmapped, which msync says.
void checkHost() {
  Ranges &r = ranges();
  r.host.clear();
  for (auto &[begin, region] : r.hostRegions)
    if (state().get("races") ||
        msync((void *)(begin / page * page), begin % page + region->size,
              MS_ASYNC) != 0)
      return forgetHost();
}

class View final : public ptx::Beyond {
public:
  explicit View(int device) : device(device) {}

  ptx::Region *find(uint64_t address) override {
    if (auto *found = rangeAt(address)) {
      Range &range = found->second;
      bool mine = range.device < 0 || range.device == device || device < 0;
      return range.live && mine ? range.region.get() : nullptr;
    }
    if (!state().get("host") || isOfArena(address))
      return nullptr;
    return hostRegion(address);
  }

  std::string describe(uint64_t address) override {
    if (auto *found = rangeAt(address)) {
      const Range &range = found->second;
      std::string name = "'" + range.region->name + "'";
      uint64_t left = found->first + range.region->size - address;
      return !range.live ? name + " has been freed"
             : range.device >= 0 && range.device != device
                 ? name + " is not memory of cuda:" + std::to_string(device)
                 : std::to_string(left) + " bytes before the end of " + name;
    }
    auto &all = ranges().all;
    auto above = all.upper_bound(address);
    if (above != all.begin()) {
      const ptx::Region &below = *std::prev(above)->second.region;
      uint64_t past = address - (below.base + below.size);
      if (past < gap)
        return std::to_string(past) + " bytes past the end of '" + below.name +
               "'";
    }
    if (above != all.end() && above->first - address < gap)
      return std::to_string(above->first - address) +
             " bytes before the start of '" + above->second.region->name + "'";
    return state().get("host")
               ? "this process has no memory there"
               : "neither memory of a device nor known to fakecuda_map";
  }

private:
  const int device;
};

} // namespace

ptx::Beyond &fakecuda::memoryOf(int device) {
  static std::map<int, View> *views = new std::map<int, View>;
  return views->try_emplace(device, device).first->second;
}

Result fakecuda::allocate(uint64_t bytes, int device, uint64_t &out) {
  if (bytes == 0)
    return InvalidValue;
  Arena &arena = arenaOf(device);
  uint64_t room = (bytes + page - 1) / page * page + 2 * gap;
  if (bytes > arenaBytes || arena.used + room > arenaBytes ||
      (device >= 0 && arena.alive + bytes > uint64_t(state().get("memory"))))
    return OutOfMemory;
  // Aligned as the driver aligns, and not by accident better.
  out = arena.base + arena.used + gap + 512;
  static int number = 0;
  Range &range = ranges().all[out];
  range.kind = device < 0 ? Pinned : DeviceMemory;
  range.device = device;
  range.region = std::make_unique<ptx::Region>(
      "allocation " + std::to_string(++number) + " (" + std::to_string(bytes) +
          " bytes of " + ownerName(device) + ")",
      out, bytes, (uint8_t *)out,
      device < 0 ? 0u : unsigned(ptx::RegionUninitialised));
  arena.used += room;
  arena.alive += bytes;
  protect(*range.region, PROT_READ | PROT_WRITE);
  memset((void *)out, 0xa5, bytes); // nobody's zeros
  if (device >= 0 && !ranges().opened)
    protect(*range.region, PROT_NONE);
  return 0;
}

bool fakecuda::release(uint64_t base, int device) {
  auto found = ranges().all.find(base);
  if (found == ranges().all.end() || !found->second.live ||
      found->second.kind != (device < 0 ? Pinned : DeviceMemory))
    return false;
  Range &range = found->second;
  range.live = false;
  protect(*range.region, PROT_NONE);
  madvise((void *)(base / page * page), range.region->size, MADV_DONTNEED);
  ranges().arenas[range.device].alive -= range.region->size;
  // The words about a freed range need its bounds, not its shadow.
  range.region = std::make_unique<ptx::Region>(
      range.region->name, base, range.region->size, (uint8_t *)base, 0u);
  return true;
}

bool fakecuda::isPinned(uint64_t address, uint64_t bytes) {
  auto *found = rangeAt(address);
  return found && found->second.live && found->second.kind == Pinned &&
         found->second.region->contains(address, bytes);
}

bool fakecuda::mayTouch(uint64_t address, uint64_t bytes, int device,
                        std::string &why) {
  // The host's own memory is for the host to know, all but what is the
  // device's.
  if (device == TheHost && !rangeAt(address) && !isOfArena(address))
    return true;
  // Memory of the process may lie in several regions.
  for (uint64_t end = address + bytes, at = address; at < end;) {
    ptx::Region *region = memoryOf(device).find(at);
    if (!region) {
      why = std::to_string(bytes) + " bytes at " + ptx::hex(address) + ": " +
            memoryOf(device).describe(at);
      return false;
    }
    at = region->base + region->size;
  }
  return true;
}

int fakecuda::sideOf(uint64_t address) {
  auto *found = rangeAt(address);
  bool isDevices = found ? found->second.kind != Pinned
                         : isOfArena(address) || state().get("host");
  return isDevices ? AnyDevice : TheHost;
}

Result fakecuda::copyBytes(uint64_t to, uint64_t from, uint64_t bytes) {
  Opened opened;
  std::vector<uint8_t> between(bytes);
  auto *source = rangeAt(from);
  if (source && source->second.region->flags & ptx::RegionUninitialised) {
    try {
      for (uint64_t i = 0; i < bytes; ++i)
        source->second.region->checkInitialised(from + i, 1);
    } catch (const ptx::Fault &found) {
      return fault(LaunchFailed, "copy: " + found.message);
    }
  }
  memcpy(between.data(), (const void *)from, bytes);
  if (auto *target = rangeAt(to))
    target->second.region->poke(to, between.data(), bytes);
  else
    memcpy((void *)to, between.data(), bytes);
  return 0;
}

bool fakecuda::mapRange(uint64_t base, uint64_t bytes, int device) {
  auto &all = ranges().all;
  if (!base || !bytes || base + bytes < base || isOfArena(base))
    return false;
  auto above = all.lower_bound(base);
  if (above != all.end() && above->first < base + bytes)
    return false;
  if (rangeAt(base))
    return false;
  forgetHost();
  Range &range = all[base];
  range.kind = Mapped;
  range.device = device;
  range.region = std::make_unique<ptx::Region>(
      "the range " + ptx::hex(base) + " + " + std::to_string(bytes) + " of " +
          (device < 0 ? "any device" : ownerName(device)),
      base, bytes, (uint8_t *)base,
      state().get("races") ? 0u : unsigned(ptx::RegionNoRaces));
  return true;
}

bool fakecuda::unmapRange(uint64_t base) {
  auto found = ranges().all.find(base);
  if (found == ranges().all.end() || found->second.kind != Mapped)
    return false;
  ranges().all.erase(found);
  return true;
}

size_t fakecuda::liveAllocations() {
  size_t count = 0;
  for (auto &[base, range] : ranges().all)
    count += range.live && range.kind != Mapped;
  return count;
}

void fakecuda::forgetMemory() {
  for (auto &[base, range] : ranges().all)
    if (range.live && range.kind != Mapped)
      release(base, range.device);
  ranges().all.clear();
  forgetHost();
}

Opened::Opened() {
  if (ranges().opened++)
    return;
  checkHost();
  protectDevices(PROT_READ | PROT_WRITE);
}

Opened::~Opened() {
  if (--ranges().opened == 0)
    protectDevices(PROT_NONE);
}
