// The pool: every item once, whoever does it, also after a fork.
#include "executor/Threads.h"

#include <atomic>
#include <dirent.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace altgrad::runtime;

namespace {

struct Counts {
  explicit Counts(size_t n) : items(n) {}
  static void body(int64_t begin, int64_t end, void *context) {
    auto &items = static_cast<Counts *>(context)->items;
    for (int64_t i = begin; i < end; ++i)
      items[size_t(i)].fetch_add(1);
  }
  bool all(int expected) const {
    for (const auto &item : items)
      if (item.load() != expected)
        return false;
    return true;
  }
  std::vector<std::atomic<int>> items;
};

size_t threadCount() {
  std::unique_ptr<DIR, int (*)(DIR *)> tasks(opendir("/proc/self/task"),
                                             closedir);
  size_t count = 0;
  while (dirent *item = readdir(tasks.get()))
    count += item->d_name[0] != '.';
  return count;
}

TEST(Threads, EveryItemIsDoneOnce) {
  for (int threads : {1, 2, 3, 8, 64})
    for (int64_t size : {1, 2, 7, 64, 65, 1000, 12345})
      for (int64_t piece : {1, 5, 64}) {
        Counts counts(static_cast<size_t>(size));
        parallelFor(threads, 0, size, 1, piece, Counts::body, &counts);
        ASSERT_TRUE(counts.all(1)) << threads << " " << size << " " << piece;
      }
}

TEST(Threads, ManySmallJobsInARow) {
  Counts counts(50);
  for (int i = 0; i < 20000; ++i)
    parallelFor(2 + i % 4, 0, 50, 1, 1, Counts::body, &counts);
  EXPECT_TRUE(counts.all(20000));
}

TEST(Threads, SmallWorkStaysWithTheCaller) {
  std::thread::id worker;
  parallelFor(
      8, 0, 64, 64, 1,
      [](int64_t, int64_t, void *out) {
        *static_cast<std::thread::id *>(out) = std::this_thread::get_id();
      },
      &worker);
  EXPECT_EQ(worker, std::this_thread::get_id());
}

TEST(Threads, NothingIsDoneForNothing) {
  parallelFor(4, 5, 5, 1, 1, [](int64_t, int64_t, void *) { FAIL(); }, nullptr);
}

TEST(Threads, TwoCallersAtOnceBothFinish) {
  Counts a(5000), b(5000);
  auto work = [](Counts &counts) {
    for (int i = 0; i < 300; ++i)
      parallelFor(4, 0, 5000, 1, 10, Counts::body, &counts);
  };
  std::thread other([&] { work(b); });
  work(a);
  other.join();
  EXPECT_TRUE(a.all(300));
  EXPECT_TRUE(b.all(300));
}

TEST(Threads, NestedWorkRunsInline) {
  Counts inner(1000);
  parallelFor(
      4, 0, 10, 1, 1,
      [](int64_t begin, int64_t end, void *context) {
        for (int64_t i = begin; i < end; ++i)
          parallelFor(4, 0, 1000, 1, 1, Counts::body, context);
      },
      &inner);
  EXPECT_TRUE(inner.all(10));
}

// One thread of the caller's is kept away until the other has done all.
TEST(Threads, ACallersThreadsHelpEachOther) {
  static std::atomic<int> left;
  Counts counts(1000);
  auto run = [](int64_t begin, int64_t end, int64_t, void (*body)(int64_t, int64_t, void *), void *context) {
    EXPECT_EQ(end - begin, 2);
    std::thread late([&] {
      while (left > 0)
        std::this_thread::yield();
      body(begin, begin + 1, context);
    });
    body(end - 1, end, context);
    late.join();
    return int32_t(7);
  };
  left = 1000;
  auto counted = [](int64_t begin, int64_t end, void *context) {
    Counts::body(begin, end, context);
    left -= int(end - begin);
  };
  EXPECT_EQ(parallelFor(run, 2, 0, 1000, 1, 16, counted, &counts), 7);
  EXPECT_TRUE(counts.all(1));
}

TEST(Threads, AChildOfForkHasItsOwn) {
  Counts before(1000);
  parallelFor(4, 0, 1000, 1, 1, Counts::body, &before);
  ASSERT_TRUE(before.all(1));
  pid_t child = fork();
  if (child == 0) {
    alarm(300);
    Counts counts(1000);
    for (int i = 0; i < 100; ++i)
      parallelFor(4, 0, 1000, 1, 1, Counts::body, &counts);
    bool own = threadCount() == 4; // no other thread has come along
    _exit(counts.all(100) && own ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  parallelFor(4, 0, 1000, 1, 1, Counts::body, &before);
  EXPECT_TRUE(before.all(2));
}

TEST(Threads, CountFollowsTheAffinity) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(availableThreads(), CPU_COUNT(&before));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before))
    ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(availableThreads(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

} // namespace
