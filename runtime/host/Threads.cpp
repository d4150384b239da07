// A small pool: every thread starts on a contiguous share of the items, the
// same in each phase, piece by piece, and then helps with the shares of the
// others.
#include "host/Threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <xmmintrin.h>

using namespace altgrad::runtime;

namespace {

// Phases follow each other within microseconds; a thread that sleeps in between
// costs the next phase its wake-up. One pause takes about 40 ns.
constexpr int spinsBeforeSleep = 400;

struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

// Never destroyed: its threads sleep until the process ends, and a child of
// fork leaves its parent's pool, whose threads and locks it has not got.
class Pool {
public:
  explicit Pool(pid_t owner) : owner(owner) {}
  const pid_t owner;
  std::atomic<bool> taken{false};

  void run(int threads, int64_t begin, int64_t end, int64_t piece,
           void (*body)(int64_t, int64_t, void *), void *context);

private:
  void grow(int threads);
  void work(int self);
  bool enter(uint64_t &seen);
  void serve(int self, uint64_t seen);
  static void *main(void *start);

  Share shares[mostThreads];
  void (*body)(int64_t, int64_t, void *) = nullptr;
  void *context = nullptr;
  int64_t piece = 1;
  int active = 1;  // shares of the job, the caller's included
  int started = 1; // threads that exist, the caller included
  bool spin = false;

  std::mutex lock;
  std::condition_variable wake, done;
  // Number of the job, how many threads it wants, whether it is open, and how
  // many have entered. A thread touches the job's fields only between entering
  // and leaving, and the caller waits for nobody who has not entered: threads
  // that wake too late cost nothing.
  std::atomic<uint64_t> gate{0};
};

constexpr uint64_t insideMask = 0xfff, openBit = 0x1000;
constexpr int wantedShift = 13, jobShift = 25;

struct Start {
  Pool *pool;
  int self;
  uint64_t seen;
};

// Waits until `ready` holds: a while awake, then asleep.
template <typename Ready>
void await(std::mutex &lock, std::condition_variable &signal, bool spin,
           Ready ready) {
  for (int i = 0; spin && i < spinsBeforeSleep; ++i) {
    if (ready())
      return;
    _mm_pause();
  }
  std::unique_lock<std::mutex> held(lock);
  signal.wait(held, ready);
}

void Pool::work(int self) {
  for (int i = 0; i < active; ++i) {
    Share &share = shares[(self + i) % active];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      int64_t first = share.next.fetch_add(piece, std::memory_order_relaxed);
      if (first >= share.end)
        break;
      body(first, std::min(first + piece, share.end), context);
    }
  }
}

bool Pool::enter(uint64_t &seen) {
  uint64_t state = gate.load();
  do {
    seen = state >> jobShift;
    uint64_t wanted = state >> wantedShift & insideMask;
    if (!(state & openBit) || (state & insideMask) >= wanted)
      return false;
  } while (!gate.compare_exchange_weak(state, state + 1));
  return true;
}

void Pool::serve(int self, uint64_t seen) {
  for (bool awake = false;;) {
    await(lock, wake, awake, [&] { return gate.load() >> jobShift != seen; });
    awake = false;
    if (!enter(seen))
      continue;
    awake = spin;
    work(self % active);
    if (!((gate.fetch_sub(1) - 1) & (openBit | insideMask))) {
      std::lock_guard<std::mutex> held(lock);
      done.notify_one();
    }
  }
}

void *Pool::main(void *argument) {
  Start start = *static_cast<Start *>(argument);
  delete static_cast<Start *>(argument);
  start.pool->serve(start.self, start.seen);
  return nullptr;
}

void Pool::grow(int threads) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // signals are the program's
  while (started < threads) {
    auto *start =
        new (std::nothrow) Start{this, started, gate.load() >> jobShift};
    pthread_t thread;
    if (!start || pthread_create(&thread, nullptr, main, start) != 0) {
      delete start;
      break; // fewer threads do the same work
    }
    pthread_setname_np(thread, "altgrad");
    pthread_detach(thread);
    ++started;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Pool::run(int threads, int64_t begin, int64_t end, int64_t size,
               void (*function)(int64_t, int64_t, void *), void *argument) {
  if (started < threads)
    grow(threads);
  body = function;
  context = argument;
  piece = size;
  active = std::min(threads, started);
  spin = active <= availableThreads();
  int64_t count = end - begin;
  for (int i = 0; i < active; ++i) {
    shares[i].next.store(begin + count * i / active, std::memory_order_relaxed);
    shares[i].end = begin + count * (i + 1) / active;
  }
  {
    std::lock_guard<std::mutex> held(lock);
    gate.store(((gate.load() >> jobShift) + 1) << jobShift |
               uint64_t(active - 1) << wantedShift | openBit);
  }
  // Any thread will do; waking all of them for two would be a stampede.
  if (active == started)
    wake.notify_all();
  else
    for (int i = 1; i < active; ++i)
      wake.notify_one();
  work(0);
  gate.fetch_and(~openBit);
  await(lock, done, spin, [&] { return !(gate.load() & insideMask); });
}

std::atomic<Pool *> current{nullptr};

Pool *poolOfThisProcess() {
  Pool *pool = current.load();
  pid_t self = getpid();
  while (!pool || pool->owner != self) {
    Pool *fresh = new (std::nothrow) Pool(self);
    if (!fresh)
      return nullptr;
    if (current.compare_exchange_strong(pool, fresh))
      return fresh;
    delete fresh;
  }
  return pool;
}

} // namespace

int altgrad::runtime::availableThreads() {
  cpu_set_t sets[8]; // 8192 CPUs; the kernel refuses a set smaller than its own
  int status = sched_getaffinity(0, sizeof sets, sets);
  int count = status == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
  return std::clamp(count, 1, mostThreads);
}

void altgrad::runtime::parallelFor(int threads, int64_t begin, int64_t end,
                          int64_t grain, int64_t piece,
                          void (*body)(int64_t, int64_t, void *),
                          void *context) {
  if (begin >= end)
    return;
  int64_t parts = (end - begin + grain - 1) / grain;
  threads = int(std::min<int64_t>(threads, parts));
  Pool *pool = threads > 1 ? poolOfThisProcess() : nullptr;
  if (!pool || pool->taken.exchange(true)) {
    body(begin, end, context);
    return;
  }
  pool->run(threads, begin, end, piece, body, context);
  pool->taken.store(false);
}
