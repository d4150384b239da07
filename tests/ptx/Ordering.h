// Happens-before between threads: barrier clocks inside a block, fences and
// messages between blocks.
#ifndef ALTGRAD_TESTS_PTX_ORDERING_H
#define ALTGRAD_TESTS_PTX_ORDERING_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace ptx {

/// How an access takes part in synchronisation. Two strong accesses whose
/// scopes include each other never race.
enum class Strength : uint8_t { Weak, StrongCta, StrongGpu };

/// Who made an access, and how far its thread had come.
struct Stamp {
  uint32_t launch = 0; // 0: nobody
  uint32_t block = 0;
  uint32_t thread = 0;
  uint32_t barrierClock = 0; // barriers of the block passed
  uint32_t warpClock = 0;    // bar.warp.sync passed since
  uint32_t releases = 0;     // releasing fences of the thread
  unsigned line = 0;
  Strength strength = Strength::Weak;
  bool isPending = false; // an asynchronous write that nobody has waited for
};

/// What a thread knows to have happened in other blocks and threads. Immutable
/// once shared; merging makes a new one.
struct Knowledge {
  /// All accesses of a block below this barrier clock.
  std::map<uint32_t, uint32_t> blocks;
  struct WarpTime {
    uint32_t barrierClock, warpClock;
  };
  /// Accesses of a warp below this time: (block, warp).
  std::map<uint64_t, WarpTime> warps;
  /// Accesses of a thread with fewer releases than this: (block, thread).
  std::map<uint64_t, uint32_t> threads;

  bool covers(const Stamp &) const;
};
using KnowledgeRef = std::shared_ptr<const Knowledge>;

KnowledgeRef merge(const KnowledgeRef &, const KnowledgeRef &);

/// A thread's own position, and what it has learned.
struct Clock {
  Stamp now;
  KnowledgeRef known;    // in effect
  KnowledgeRef released; // by the last releasing fence: travels with writes
  KnowledgeRef
      observed; // read from messages; an acquiring fence makes it known
  KnowledgeRef observedHere; // the same, written by this block: enough for .cta
  // Numbers of the launches that overlap with this one: the one before until
  // this thread has waited for it, and what has begun of the next one.
  uint32_t before = 0, next = 0;
  bool waited = true;
  uint32_t releasedBlockOnly = 0; // the last fence had .cta scope

  bool isOrderedAfter(const Stamp &) const;
  bool overlaps(uint32_t launch) const {
    return launch && ((launch == before && !waited) || launch == next);
  }
};

struct Access {
  const Clock *clock;
  bool isWrite;
  Strength strength;
  bool isPending = false;
};

/// What stands behind the value at a synchronisation address.
struct Message {
  KnowledgeRef content;
  bool isCtaOnly = false;
  uint32_t block = 0;
};

/// All messages of a launch.
class Messages {
public:
  /// The effect of `fence` or of a release: publishes what the thread knows.
  static void release(Clock &, bool ctaOnly);
  static void acquire(Clock &, bool ctaOnly);

  /// A strong store or atomic at `address`. An atomic continues the release
  /// sequence it reads from, a store begins a new one.
  void written(uint64_t address, const Clock &, bool isAtomic);
  void read(uint64_t address, Clock &) const;

private:
  std::map<uint64_t, Message> at;
};

} // namespace ptx

#endif
