// The simulated device: blocks of threads over one global memory.
#ifndef ALTGRAD_TESTS_PTX_MACHINE_H
#define ALTGRAD_TESTS_PTX_MACHINE_H

#include "Caches.h"
#include "Memory.h"
#include "Program.h"

#include <functional>

namespace ptx {

using Dimensions = std::array<uint32_t, 3>;

enum class BlockOrder : uint8_t { Forward, Backward, Shuffled };

struct LaunchOptions {
  Dimensions grid{1, 1, 1}, block{1, 1, 1};
  uint32_t dynamicSharedBytes = 0;
  std::vector<uint8_t> parameters;
  uint64_t firstBlock = 0, lastBlock = ~uint64_t(0); // [first, last)
  uint64_t stepLimit = uint64_t(1) << 32;
  uint32_t residentBlocks = 1; // more: they take turns, for spinning kernels
  BlockOrder order = BlockOrder::Forward;
  uint64_t seed = 0;
  uint64_t perturbation = 0; // of .approx results
  bool checkRaces = true;
  // Programmatic dependent launch: it may begin before the one before it has
  // ended, and each thread has to wait for that (griddepcontrol.wait).
  // `before`: the number of that launch, with which accesses are compared; 0:
  // no thread may touch anything but read-only memory before it has waited.
  bool follows = false;
  uint32_t before = 0;
  // Of weak loads from memory in which races are looked for; null: none.
  Caches *caches = nullptr;
};

struct LaunchResult {
  FaultKind fault = FaultKind::None;
  unsigned line = 0;
  std::string message; // "line 12: out-of-bounds: ..."
  uint64_t steps = 0;  // thread-instructions executed
};

class Machine;
struct Block;

/// A cp.async on its way: what it will have written to shared memory when the
/// thread has waited for its group.
struct AsyncCopy {
  Region *region;
  uint64_t address;
  unsigned bytes;
  uint32_t group;
  uint8_t data[16];
};

struct Thread {
  enum State : uint8_t { Ready, AtBarrier, AtWarp, AtLaunch, Exited };

  uint64_t *registers = nullptr;
  uint8_t *written = nullptr;
  Block *block = nullptr;
  const Instruction *current = nullptr;
  uint32_t pc = 0;
  uint32_t index = 0; // linear in the block
  State state = Ready;
  bool carry = false;
  uint32_t waitMask = 0; // of a warp operation, or a barrier's number
  Dimensions id{};
  Clock clock;
  std::unique_ptr<Region> local;
  std::vector<AsyncCopy> copies;
  uint32_t groups = 0; // of copies, committed

  uint32_t inWarp() const { return index % 32; }
};

struct Barrier {
  std::vector<Thread *> waiting;
  uint32_t arrived = 0, expected = 0;
};

struct Block {
  Machine *machine = nullptr;
  uint32_t index = 0, processor = 0;
  Dimensions id{};
  std::vector<Thread> threads;
  std::vector<uint64_t> registers;
  std::vector<uint8_t> written;
  std::unique_ptr<Region> shared, dynamicShared;
  std::array<Barrier, 16> barriers;

  void start(Machine &, uint32_t index);
  /// Gives each ready thread a turn; true when all have exited.
  bool run();
  /// Until nobody can go on before the launch before has ended.
  void runAhead();

  /// The thread of that number in the warp of `t`.
  Thread *ofWarp(const Thread &t, unsigned number) {
    size_t i = t.index - t.index % 32 + number;
    return i < threads.size() ? &threads[i] : nullptr;
  }
  /// Blocks `t` until all threads in `mask` stand at the same instruction; true
  /// for the last one to come, when all are released.
  bool arriveAtWarp(Thread &t, const Instruction &, uint32_t mask);
  void arriveAtBarrier(Thread &t, uint32_t number, uint32_t count, bool waits,
                       bool aligned);

private:
  bool giveTurns(bool &anyRan);
  void runThread(Thread &);
  [[noreturn]] void reportStuck();
  void release(Barrier &, bool aligned);
};

/// One launch.
class Machine {
public:
  Machine(const Module &, const Kernel &, Memory &, const LaunchOptions &);
  LaunchResult run();
  /// The first blocks of a launch that follows, before the one before it has
  /// ended; run() does the rest.
  LaunchResult begin(uint32_t blocks);
  /// That launch `number`, the next one, has begun.
  void overlapWith(uint32_t number);

  const Module &module;
  const Kernel &kernel;
  Memory &memory;
  const LaunchOptions &options;
  Messages messages;
  std::unique_ptr<Region> parameters;
  std::map<uint64_t, std::unique_ptr<Region>> constants;
  std::vector<Region *> lastRegion; // per instruction
  uint32_t launchNumber;
  uint64_t steps = 0;
  uint32_t next = 0;
  bool isAhead = false;            // the launch before has not ended
  const Thread *running = nullptr; // whom a fault is about

  uint32_t threadsPerBlock() const {
    return options.block[0] * options.block[1] * options.block[2];
  }

private:
  void checkOptions() const;
  void prepare(uint32_t atOnce);
  bool startBlock(size_t slot);
  LaunchResult guarded(const std::function<void()> &body);
  LaunchResult describe(const Fault &, const Thread *) const;
  void runBlocks();
  uint64_t blockAt(uint64_t position, uint64_t count) const;
  std::vector<Block> resident;
  std::vector<bool> isBusy;
  uint64_t count = 0, started = 0;
};

[[noreturn]] void throwUnwritten(const Thread &, const Operand &);
uint64_t readSpecial(const Thread &, const Operand &);

inline uint64_t read(const Thread &t, const Operand &o) {
  if (o.kind == Operand::Register) {
    if (!t.written[o.index])
      throwUnwritten(t, o);
    return t.registers[o.index];
  }
  return o.kind == Operand::Immediate ? o.value : readSpecial(t, o);
}

/// Keeps the bits the register has; a sink keeps none.
inline void write(Thread &t, const Operand &o, uint64_t value) {
  if (o.kind != Operand::Register)
    return;
  t.registers[o.index] = value & o.value;
  t.written[o.index] = 1;
}

inline bool readPredicate(const Thread &t, const Operand &o) {
  return (read(t, o) != 0) != o.negated;
}

/// Access.cpp: the checked way to memory. `bytes` is the whole vector.
struct MemoryAccess {
  Space space;
  uint64_t address;
  unsigned bytes;
  bool isWrite;
  Strength strength = Strength::Weak;
  bool isPending = false; // a write that is not done before a wait for it
};
Region &checkAccess(Thread &, const MemoryAccess &);
uint64_t addressOf(const Thread &, const Operand &);
Strength strengthOf(const Traits &);
/// After a fence, or a wait for the launch before.
void emptyCache(const Thread &);
/// Names a synchronisation address; shared memory is another one in each block.
uint64_t messageKey(const Thread &, Space, uint64_t plainAddress);
/// The non-generic address of a generic one, and the space it lies in.
Space resolveGeneric(uint64_t &address);

} // namespace ptx

#endif
