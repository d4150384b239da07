// Runs host kernels of the best level this CPU has.
#include "executor/Executor.h"
#include "Status.h"
#include "executor/Threads.h"
#include "matrix/Multiply.h"

#include <algorithm>
#include <cstring>
#include <xmmintrin.h>

using namespace altgrad::runtime;

namespace {

// A chunk takes about a microsecond, a row a twentieth of that, waking a thread
// several, and milliseconds where others have its core: this many items are not
// worth a second thread. A piece is what a thread takes at a time.
constexpr int64_t chunkGrain = 8, chunkPiece = 16;
constexpr int64_t rowGrain = 512, rowPiece = 256;

// IEEE: nearest even, subnormals kept, no traps.
constexpr unsigned ieeeControl = 0x1F80;

bool cpuHas(const std::string &level) {
  __builtin_cpu_init();
  // Both ask for the operating system's support as well.
  if (level == "v4")
    return __builtin_cpu_supports("x86-64-v4");
  if (level == "v3")
    return __builtin_cpu_supports("x86-64-v3");
  return level == "v2" && __builtin_cpu_supports("x86-64-v2");
}

class HostExecutor final : public Executor {
public:
  altgrad_status load(const Bundle &bundle, const std::string &level);
  altgrad_status prepare(const Tables &) override { return ALTGRAD_OK; }
  altgrad_status run(const Tables &tables, const Launch &launch, unsigned &changed) override;
  bool runsRanges() const override { return true; }

private:
  struct Entry {
    altgrad_host_kernel kernel;
    const Phase *phase;
  };
  std::vector<Entry> phases;
  int64_t rowWords = 0;
};

struct Range {
  altgrad_host_kernel kernel;
  const altgrad_args *args;
};

// The control register belongs to the thread, and torch may have switched
// subnormals off in it.
void runRange(int64_t begin, int64_t end, void *context) {
  const Range &range = *static_cast<const Range *>(context);
  unsigned before = _mm_getcsr();
  _mm_setcsr(ieeeControl);
  range.kernel(range.args, begin, end);
  _mm_setcsr(before);
}

altgrad_status HostExecutor::load(const Bundle &bundle, const std::string &level) {
  rowWords = bundle.manifest().rowWords;
  for (const Phase &phase : bundle.manifest().phases) {
    if (phase.kind == ALTGRAD_MATRIX) {
      phases.push_back({nullptr, &phase});
      continue;
    }
    std::string symbol = phase.symbol + "_" + level;
    void *address = bundle.function(symbol);
    if (!address)
      return fail(ALTGRAD_BROKEN, "%s has no %s", bundle.name().c_str(), symbol.c_str());
    phases.push_back({altgrad_host_kernel(address), &phase});
  }
  return ALTGRAD_OK;
}

altgrad_status HostExecutor::run(const Tables &tables, const Launch &launch, unsigned &changed) {
  for (int64_t i = launch.first; i < launch.last; ++i) {
    const auto &[kernel, phase] = phases[size_t(i)];
    if (!kernel) {
      if (altgrad_status status = multiplyMatrices(*phase, tables, rowWords, launch))
        return status;
      continue;
    }
    Range range{kernel, &launch.args};
    bool chunks = phase->domain == Domain::Chunks;
    const auto [begin, end] = itemsOf(*phase, tables, launch.part);
    int64_t grain = chunks ? chunkGrain : rowGrain, piece = chunks ? chunkPiece : rowPiece;
    if (end - begin <= grain) {
      if (begin < end)
        runRange(begin, end, &range);
    } else if (launch.parallelFor) {
      if (int32_t error = parallelFor(launch.parallelFor, launch.threads, begin, end, grain, piece, runRange, &range))
        return fail(ALTGRAD_SYSTEM,
                    "the caller's parallel_for failed (%d) in phase %s: the "
                    "step is done in part",
                    int(error), phase->name.c_str());
    } else {
      parallelFor(launch.threads, begin, end, grain, piece, runRange, &range);
    }
  }
  changed = 0;
  return ALTGRAD_OK;
}

std::string joined(const std::vector<std::string> &names) {
  std::string all;
  for (const std::string &name : names)
    all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "none" : all;
}

} // namespace

altgrad_status altgrad::runtime::createHostExecutor(const Bundle &bundle, const char *level,
                                                    std::unique_ptr<Executor> &out) {
  const std::vector<std::string> &host = bundle.manifest().host;
  std::string chosen = level ? level : "";
  if (level && std::find(host.begin(), host.end(), chosen) == host.end())
    return fail(ALTGRAD_NOT_FOUND, "%s has no host level %s (it has: %s)", bundle.name().c_str(), level,
                joined(host).c_str());
  if (level && !cpuHas(chosen))
    return fail(ALTGRAD_UNAVAILABLE, "this CPU is not x86-64-%s", level);
  for (const std::string &name : host) // v4 > v3 > v2 as text, too
    if (!level && cpuHas(name))
      chosen = std::max(chosen, name);
  if (chosen.empty())
    return fail(ALTGRAD_UNAVAILABLE, "%s has no host level this CPU can run (it has: %s)", bundle.name().c_str(),
                joined(host).c_str());
  auto executor = std::make_unique<HostExecutor>();
  if (altgrad_status status = executor->load(bundle, chosen))
    return status;
  out = std::move(executor);
  return ALTGRAD_OK;
}
