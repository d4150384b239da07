// Launches: checks the options, runs the blocks, words the faults.
#include "Machine.h"

#include <algorithm>

using namespace ptx;

/// Stamps in shadows carry it: what older launches did is thereby in the past.
static uint32_t nextLaunchNumber() {
  static uint32_t number = 0;
  return ++number;
}

Machine::Machine(const Module &module, const Kernel &kernel, Memory &memory,
                 const LaunchOptions &options)
    : module(module), kernel(kernel), memory(memory), options(options),
      launchNumber(nextLaunchNumber()) {
  lastRegion.resize(kernel.code.size());
}

static std::string text(const Dimensions &d) {
  return "(" + std::to_string(d[0]) + ", " + std::to_string(d[1]) + ", " +
         std::to_string(d[2]) + ")";
}

static uint64_t product(const Dimensions &d) {
  return uint64_t(d[0]) * d[1] * d[2];
}

void Machine::checkOptions() const {
  // All of it is checked before a thread exists: no line of PTX is at fault.
  auto refuse = [](const std::string &why) {
    throw Fault{FaultKind::BadLaunch, why};
  };
  const LaunchOptions &o = options;
  uint64_t threads = product(o.block);
  if (threads == 0 || threads > 1024 || o.block[0] > 1024 || o.block[1] > 1024)
    refuse("a block of " + text(o.block) +
           " threads, at most 1024 are possible");
  if (o.grid[0] == 0 || o.grid[1] == 0 || o.grid[2] == 0 ||
      o.grid[0] > 0x7fffffff || o.grid[1] > 65535 || o.grid[2] > 65535)
    refuse("a grid of " + text(o.grid) + " blocks");
  if (product(o.grid) > 0xffffffff)
    refuse("more than 2^32 blocks are not simulated");
  if (kernel.maxThreads[0] && threads > product(kernel.maxThreads))
    refuse("a block of " + std::to_string(threads) +
           " threads, '.maxntid' is " +
           std::to_string(product(kernel.maxThreads)));
  if (kernel.exactThreads[0] && o.block != kernel.exactThreads)
    refuse("a block of " + text(o.block) + " threads, '.reqntid' is " +
           text(kernel.exactThreads));
  // Exactly: a longer block is as surely a mistake as a shorter one.
  if (o.parameters.size() != kernel.parameterBytes)
    refuse("a parameter block of " + std::to_string(o.parameters.size()) +
           " bytes, kernel '" + kernel.name + "' takes " +
           std::to_string(kernel.parameterBytes));
  if (kernel.sharedBytes + o.dynamicSharedBytes > 227 * 1024)
    refuse("more than 227 KB of shared memory");
  uint64_t last = std::min(o.lastBlock, product(o.grid));
  if (o.firstBlock >= last)
    refuse("no block in [" + std::to_string(o.firstBlock) + ", " +
           std::to_string(o.lastBlock) + ")");
  if (o.residentBlocks == 0)
    refuse("no resident blocks");
}

LaunchResult Machine::describe(const Fault &fault, const Thread *t) const {
  LaunchResult r;
  r.fault = fault.kind;
  r.steps = steps;
  std::string place;
  if (t && t->current) {
    r.line = t->current->line;
    r.message = "line " + std::to_string(r.line) + ": ";
    // The source line says more than the form's name would.
    place = " (block " + text(t->block->id) + " thread " + text(t->id);
    if (r.line && r.line <= module.sourceLines.size()) {
      std::string source = module.sourceLines[r.line - 1];
      size_t begin = source.find_first_not_of(" \t");
      if (begin != std::string::npos)
        place += ": " + source.substr(begin);
    }
    place += ")";
  } else {
    r.message = "launch of '" + kernel.name + "': ";
  }
  r.message += std::string(nameOf(fault.kind)) + ": " + fault.message + place;
  return r;
}

uint64_t Machine::blockAt(uint64_t position, uint64_t count) const {
  uint64_t offset = position;
  if (options.order == BlockOrder::Backward) {
    offset = count - 1 - position;
  } else if (options.order == BlockOrder::Shuffled) {
    // A stride coprime to the count visits every block once.
    uint64_t stride = (options.seed * 2654435761u + 1) % count;
    auto gcd = [](uint64_t a, uint64_t b) {
      while (b)
        std::swap(a %= b, b);
      return a;
    };
    while (gcd(stride, count) != 1)
      ++stride;
    offset = (position * stride + options.seed) % count;
  }
  return options.firstBlock + offset;
}

// With one resident block they run in order. With several they take turns, and
// a block may wait for another that is resident.
void Machine::prepare(uint32_t atOnce) {
  if (!resident.empty())
    return;
  checkOptions();
  // Regions never write to read-only memory: the casts are sound.
  parameters = std::make_unique<Region>(
      "parameters", ParamBase, options.parameters.size(),
      const_cast<uint8_t *>(options.parameters.data()),
      RegionReadOnly | RegionNoRaces);
  for (const ModuleVariable &v : module.variables)
    if (v.space == Space::Const)
      constants[v.address] =
          std::make_unique<Region>(v.name, v.address, v.bytes.size(),
                                   const_cast<uint8_t *>(v.bytes.data()),
                                   RegionReadOnly | RegionNoRaces);
  count =
      std::min(options.lastBlock, product(options.grid)) - options.firstBlock;
  resident.resize(std::min<uint64_t>(atOnce, count));
  isBusy.resize(resident.size(), false);
}

bool Machine::startBlock(size_t slot) {
  if (!isBusy[slot] && started < count) {
    resident[slot].start(*this, uint32_t(blockAt(started++, count)));
    isBusy[slot] = true;
  }
  return isBusy[slot];
}

void Machine::runBlocks() {
  for (uint64_t finished = 0; finished < count;)
    for (size_t i = 0; i < resident.size(); ++i)
      if (startBlock(i) && resident[i].run()) {
        isBusy[i] = false;
        ++finished;
      }
}

LaunchResult Machine::guarded(const std::function<void()> &body) {
  try {
    body();
  } catch (const Fault &fault) {
    return describe(fault, running);
  }
  LaunchResult r;
  r.steps = steps;
  return r;
}

LaunchResult Machine::run() {
  return guarded([&] {
    prepare(options.residentBlocks);
    // Memory may be another one since it began.
    std::fill(lastRegion.begin(), lastRegion.end(), nullptr);
    runBlocks();
  });
}

LaunchResult Machine::begin(uint32_t blocks) {
  return guarded([&] {
    prepare(std::max(blocks, options.residentBlocks));
    isAhead = true;
    for (size_t i = 0; i < std::min<size_t>(blocks, resident.size()); ++i)
      if (startBlock(i))
        resident[i].runAhead();
    isAhead = false;
  });
}

void Machine::overlapWith(uint32_t number) {
  next = number;
  for (Block &block : resident)
    for (Thread &t : block.threads)
      t.clock.next = number;
}
