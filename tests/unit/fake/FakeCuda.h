// A CUDA driver without a GPU: work is queued and done when somebody waits, so
// that memory which is reused too early is seen.
#ifndef ALTGRAD_TESTS_FAKECUDA_H
#define ALTGRAD_TESTS_FAKECUDA_H

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

struct FakeLaunch {
  std::string kernel;
  unsigned grid = 0, block = 0;
  void *stream = nullptr;
  std::vector<uint64_t> arguments;
};

struct FakeCuda {
  // What the machine looks like.
  int devices = 2, capability = 90, processors = 10, occupancy = 6;
  bool capturing = false;
  std::string jitLog;
  // Function name -> the error it returns; 500 for cuGetProcAddress names.
  std::map<std::string, int> failures;
  std::set<std::string> missing;
  std::string name = "Fake GPU";
  int version = 12040;
  // Of an image with these words: the error of loading it, or of finding its kernels.
  std::map<std::string, int> refused, lacking;
  std::function<void(const FakeLaunch &)> onLaunch;

  // What has happened.
  std::map<std::string, int> calls;
  std::vector<FakeLaunch> launches;
  std::vector<uint64_t> contexts; // the stack; device + 1
  std::map<int, int> retained;
  std::string ptx;
  std::vector<std::string> images; // that were loaded or refused
  int alive = 0; // allocations, events and modules not yet freed
  std::vector<std::function<void()>> queue;

  void drain() {
    auto work = std::move(queue);
    queue.clear();
    for (auto &one : work)
      one();
  }
};

// Exported by the fake as "fakeCuda".
using GetFakeCuda = FakeCuda *(*)();

#endif // ALTGRAD_TESTS_FAKECUDA_H
