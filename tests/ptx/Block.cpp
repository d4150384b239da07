// Scheduling inside a block: each thread runs until it waits; the last to
// arrive releases the rest.
#include "Machine.h"

#include <algorithm>

using namespace ptx;

// Long enough to be cheap, short enough that a spinning thread lets others on.
constexpr uint64_t TurnLength = 4096;

// Blocks reuse their storage: only the "written" flags must start clean.
void Block::start(Machine &m, uint32_t number) {
  machine = &m;
  index = number;
  if (m.options.caches)
    processor = m.options.caches->processorOf(number, m.options.follows);
  const Dimensions &grid = m.options.grid, &dim = m.options.block;
  id = {number % grid[0], number / grid[0] % grid[1],
        number / grid[0] / grid[1]};
  size_t perThread = std::max<size_t>(m.kernel.registerNames.size(), 1);
  uint32_t count = m.threadsPerBlock();
  registers.resize(count * perThread);
  written.assign(count * perThread, 0);
  threads.clear();
  threads.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    Thread &t = threads[i];
    t.registers = &registers[i * perThread];
    t.written = &written[i * perThread];
    t.block = this;
    t.index = i;
    t.id = {i % dim[0], i / dim[0] % dim[1], i / dim[0] / dim[1]};
    t.clock.now.launch = m.launchNumber;
    t.clock.now.block = number;
    t.clock.now.thread = i;
    t.clock.before = m.options.before;
    t.clock.next = m.next;
    t.clock.waited = !m.options.follows;
    if (m.kernel.localBytes)
      t.local = std::make_unique<Region>("local memory", LocalBase,
                                         m.kernel.localBytes, nullptr,
                                         RegionUninitialised | RegionNoRaces);
  }
  // Fresh for every block: shared memory never carries anything over.
  auto makeShared = [&](const char *name, uint64_t base, uint64_t bytes) {
    auto region = std::make_unique<Region>(name, base, bytes, nullptr,
                                           RegionUninitialised);
    region->raceKind = FaultKind::SharedRace;
    return region;
  };
  shared = makeShared("shared memory", SharedBase, m.kernel.sharedBytes);
  dynamicShared = makeShared("dynamic shared memory", SharedBase + 0x800000,
                             m.options.dynamicSharedBytes);
  for (Barrier &b : barriers)
    b = {};
}

void Block::runThread(Thread &t) {
  const Instruction *code = machine->kernel.code.data();
  uint64_t limit = machine->options.stepLimit;
  // The limit is part of the turn, so that it stops in the middle of one.
  uint64_t turn = std::min(TurnLength, limit - machine->steps);
  uint64_t left = turn;
  machine->running = &t;
  while (left) {
    const Instruction &i = code[t.pc++];
    t.current = &i;
    --left;
    if (i.guard.kind != Operand::None && !readPredicate(t, i.guard))
      continue;
    i.run(t, i);
    if (t.state != Thread::Ready)
      break;
  }
  // Counted once a turn; a fault loses the last turn's count, no more.
  machine->steps += turn - left;
  if (t.state == Thread::Ready && machine->steps >= limit)
    throw Fault{FaultKind::StepLimit, "the launch did not end within " +
                                          std::to_string(limit) +
                                          " instructions"};
}

bool Block::giveTurns(bool &anyRan) {
  bool allExited = true;
  for (Thread &t : threads) {
    if (t.state == Thread::AtLaunch && !machine->isAhead) {
      t.clock.waited = true;
      t.state = Thread::Ready;
      emptyCache(t);
    }
    if (t.state == Thread::Ready) {
      runThread(t);
      anyRan = true;
    }
    allExited &= t.state == Thread::Exited;
  }
  return allExited;
}

bool Block::run() {
  // Waiting threads become ready inside others' turns, in this pass or the
  // next; a pass in which nobody ran is the end or a deadlock.
  bool anyRan = false, allExited = giveTurns(anyRan);
  if (!anyRan && !allExited)
    reportStuck();
  return allExited;
}

void Block::runAhead() {
  bool anyRan = true;
  while (anyRan) {
    anyRan = false;
    giveTurns(anyRan);
  }
}

void Block::reportStuck() {
  uint32_t exited = 0;
  const Thread *atBarrier = nullptr, *atWarp = nullptr;
  for (const Thread &t : threads) {
    exited += t.state == Thread::Exited;
    if (t.state == Thread::AtBarrier && !atBarrier)
      atBarrier = &t;
    if (t.state == Thread::AtWarp && !atWarp)
      atWarp = &t;
  }
  // A warp operation is the closer cause when both are waited for.
  machine->running = atWarp ? atWarp : atBarrier;
  if (atWarp)
    throw Fault{FaultKind::WarpDivergence,
                "threads in mask " + hex(atWarp->waitMask) +
                    " never come to this instruction"};
  const Barrier &b = barriers[atBarrier->waitMask];
  throw Fault{FaultKind::BarrierDivergence,
              "barrier " + std::to_string(atBarrier->waitMask) + " waits for " +
                  std::to_string(b.expected) + " threads, " +
                  std::to_string(b.arrived) + " arrived and " +
                  std::to_string(exited) + " exited"};
}

bool Block::arriveAtWarp(Thread &t, const Instruction &i, uint32_t mask) {
  if (!(mask >> t.inWarp() & 1))
    throw Fault{FaultKind::Undefined,
                "mask " + hex(mask) + " does not name the executing thread " +
                    std::to_string(t.inWarp())};
  t.state = Thread::AtWarp;
  t.waitMask = mask;
  bool complete = true;
  for (unsigned number = 0; number < 32; ++number) {
    if (!(mask >> number & 1))
      continue;
    // Convergence is not assumed: threads meet here because the mask says so,
    // as on hardware with independent threads.
    const Thread *other = ofWarp(t, number);
    if (!other || other->state == Thread::Exited)
      throw Fault{FaultKind::WarpDivergence,
                  "thread " + std::to_string(number) + " of mask " + hex(mask) +
                      (other ? " has exited" : " does not exist")};
    if (other->state != Thread::AtWarp || other->current != &i) {
      complete = false;
    } else if (other->waitMask != mask) {
      throw Fault{FaultKind::WarpDivergence,
                  "threads disagree on the mask: " + hex(mask) + " and " +
                      hex(other->waitMask)};
    }
  }
  if (!complete)
    return false;
  for (unsigned number = 0; number < 32; ++number)
    if (mask >> number & 1)
      ofWarp(t, number)->state = Thread::Ready;
  return true;
}

void Block::release(Barrier &b, bool aligned) {
  // Whoever passed knows all that any of them had done or learned. With a part
  // of the threads the common clock may run ahead of others: that hides races,
  // and never makes one up.
  std::map<uint32_t, const Instruction *> byWarp;
  uint32_t clock = 0;
  KnowledgeRef known;
  for (Thread *t : b.waiting) {
    clock = std::max(clock, t->clock.now.barrierClock);
    known = merge(known, t->clock.known);
    if (t->state != Thread::AtBarrier) // bar.arrive went on
      continue;
    const Instruction *&first = byWarp[t->index / 32];
    if (!first)
      first = t->current;
    else if (aligned && first != t->current)
      throw Fault{FaultKind::BarrierDivergence,
                  "threads of one warp wait at lines " +
                      std::to_string(first->line) + " and " +
                      std::to_string(t->current->line)};
  }
  for (Thread *t : b.waiting) {
    t->clock.now.barrierClock = clock + 1;
    t->clock.known = known;
    if (t->state == Thread::AtBarrier)
      t->state = Thread::Ready;
  }
  b = {};
}

void Block::arriveAtBarrier(Thread &t, uint32_t number, uint32_t count,
                            bool waits, bool aligned) {
  if (number >= barriers.size())
    throw Fault{FaultKind::Undefined,
                "barrier " + std::to_string(number) + " does not exist"};
  // PTX counts warps; the whole block is fine even when its last warp is short.
  if (count % 32 && count != threads.size())
    throw Fault{FaultKind::Undefined, "a barrier for " + std::to_string(count) +
                                          " threads: not a multiple of 32"};
  Barrier &b = barriers[number];
  if (b.arrived && b.expected != count)
    throw Fault{FaultKind::BarrierDivergence,
                "threads disagree on the count of barrier " +
                    std::to_string(number) + ": " + std::to_string(b.expected) +
                    " and " + std::to_string(count)};
  b.expected = count;
  ++b.arrived;
  b.waiting.push_back(&t);
  t.waitMask = number;
  if (waits)
    t.state = Thread::AtBarrier;
  if (b.arrived == count)
    release(b, aligned);
}
