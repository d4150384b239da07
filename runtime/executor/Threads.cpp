// A small pool, and the shares of its threads and of a caller's.
#include "executor/Threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <iterator>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

// Every thread starts on a contiguous share of the items, the same in each
// phase, piece by piece, and then helps with the shares of the others.
struct Job {
  Share *shares;
  int count;
  int64_t piece;
  void (*body)(int64_t, int64_t, void *);
  void *context;

  void share(int64_t begin, int64_t end) {
    for (int i = 0; i < count; ++i) {
      shares[i].next.store(begin + (end - begin) * i / count, std::memory_order_relaxed);
      shares[i].end = begin + (end - begin) * (i + 1) / count;
    }
  }

  void work(int self) const {
    for (int i = 0; i < count; ++i) {
      Share &share = shares[(self + i) % count];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        int64_t first = share.next.fetch_add(piece, std::memory_order_relaxed);
        if (first >= share.end)
          break;
        body(first, std::min(first + piece, share.end), context);
      }
    }
  }
};

// Never destroyed: its threads sleep until the process ends, and a child of
// fork leaves its parent's pool, whose threads and locks it has not got.
class Pool {
public:
  explicit Pool(pid_t owner) : owner(owner) {}
  const pid_t owner;
  std::atomic<bool> taken{false};

  void run(int threads, int64_t begin, int64_t end, int64_t piece, void (*body)(int64_t, int64_t, void *),
           void *context);

private:
  void grow(int threads);
  static void *serve(void *pool);

  Share shares[mostThreads];
  Job job{shares, 1, 1, nullptr, nullptr}; // a share for each thread, the caller's included
  int started = 1;                         // threads that exist, the caller included

  // The caller waits for nobody who has not entered: a thread that wakes too late costs
  // nothing.
  std::mutex lock;
  std::condition_variable wake, done;
  int entered = 1; // shares that are taken; all of a job that is closed
  int inside = 0;  // threads that work, without the caller
};

void *Pool::serve(void *argument) {
  Pool &pool = *static_cast<Pool *>(argument);
  for (std::unique_lock<std::mutex> held(pool.lock);;) {
    pool.wake.wait(held, [&] { return pool.entered < pool.job.count; });
    const int self = pool.entered++;
    ++pool.inside;
    held.unlock();
    pool.job.work(self);
    held.lock();
    if (--pool.inside == 0)
      pool.done.notify_one();
  }
}

void Pool::grow(int threads) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // signals are the program's
  for (pthread_t thread; started < threads; ++started) {
    if (pthread_create(&thread, nullptr, serve, this) != 0)
      break; // fewer threads do the same work
    pthread_setname_np(thread, "altgrad");
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Pool::run(int threads, int64_t begin, int64_t end, int64_t size, void (*function)(int64_t, int64_t, void *),
               void *argument) {
  if (started < threads)
    grow(threads);
  std::unique_lock<std::mutex> held(lock);
  job = {shares, std::min(threads, started), size, function, argument};
  job.share(begin, end);
  entered = 1;
  held.unlock();
  for (int i = 1; i < job.count; ++i)
    wake.notify_one();
  job.work(0);
  held.lock();
  entered = job.count;
  done.wait(held, [&] { return inside == 0; });
}

std::atomic<Pool *> current{nullptr};

Pool *poolOfThisProcess() {
  Pool *pool = current.load();
  pid_t self = getpid();
  while (!pool || pool->owner != self) {
    Pool *made = new (std::nothrow) Pool(self);
    if (!made)
      return nullptr;
    if (current.compare_exchange_strong(pool, made))
      return made;
    delete made;
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

void altgrad::runtime::parallelFor(int threads, int64_t begin, int64_t end, int64_t grain, int64_t piece,
                                   void (*body)(int64_t, int64_t, void *), void *context) {
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

// The caller's threads take numbers of shares, not items: who comes late to its own share finds it done.
int32_t altgrad::runtime::parallelFor(altgrad_parallel_for run, int threads, int64_t begin, int64_t end, int64_t grain,
                                      int64_t piece, void (*body)(int64_t, int64_t, void *), void *context) {
  Share shares[128];
  int64_t most = std::min<int64_t>((end - begin + grain - 1) / grain, std::size(shares));
  Job job{shares, int(std::min<int64_t>(threads, most)), piece, body, context};
  job.share(begin, end);
  auto parts = [](int64_t first, int64_t last, void *given) {
    for (int64_t i = first; i < last; ++i)
      static_cast<const Job *>(given)->work(int(i));
  };
  return run(0, job.count, 1, parts, &job);
}
