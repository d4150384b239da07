// What a kernel takes of a multiprocessor: its shared memory, variable by variable, and how many blocks it leaves room
// for. What has no room in shared memory gets registers, or is computed again.
#include "codegen/Passes.h"
#include "codegen/abi/Launches.h"
#include "codegen/common/Reductions.h"
#include "codegen/gpu/KernelResources.h"
#include "codegen/numerics/BookTable.h"
#include "dialect/Codecs.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_FITRESOURCESPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
// The shared memory of a block while it is given away.
struct SharedMemoryBudget {
  Builder builder;
  const GpuTuning &tuning;
  int64_t most; // that a kernel may name itself
  NamedAttrList shared = {};
  int64_t used = 0, perThread = 0; // of it, what is each thread's

  void reserve(const Twine &name, int64_t bytes) {
    if (bytes)
      shared.append(name.str(), builder.getI64IntegerAttr(bytes));
    used += bytes;
  }
  // A launch brings it, beside what the kernel names.
  void reserveAtLaunch(StringRef name, int64_t bytes) {
    shared.append(name, builder.getI64IntegerAttr(bytes));
    most = std::min<int64_t>(most, tuning.blockSharedBytes - bytes);
  }
  void reservePerThread(const Twine &name, unsigned count, unsigned bytes) {
    reserve(name, int64_t(count) * getStride(bytes));
    perThread += int64_t(count) * getStride(bytes);
  }
  // The entries of `bytes` that every thread can still have: all, or as many as leave the target's number of blocks at
  // home on a multiprocessor.
  unsigned maxEntries(unsigned bytes) const { return (most - used) / getStride(bytes); }
  unsigned entriesAtOccupancy(unsigned bytes) const {
    return std::min<int64_t>(tuning.sharedBytes - perThread, most - used) / getStride(bytes);
  }
};
} // namespace

//===-- Registers -----------------------------------------------------------===//

static unsigned countDraws(SweepOp sweep) { return llvm::range_size(sweep.getBody().getOps<DrawOp>()); }

// Codes of accesses that hold more elements than a guard's: they were loaded
// before their time, or wait to be stored with others.
static unsigned countBufferedWords(SweepOp sweep, const GpuTuning &tuning) {
  int64_t elements = getVectorsPerGuard(sweep, tuning) * sweep.getWidth();
  auto bytes = [&](OperandRange streams) {
    int64_t sum = 0;
    for (Value tensors : streams)
      if (getBlock(tensors) == 1)
        sum += std::max<int64_t>(getPeriod(sweep, tensors, tuning) - elements, 0) * getBytes(tensors);
    return sum;
  };
  return std::max(bytes(sweep.getLoads()), bytes(sweep.getStores())) / sizeof(int32_t);
}

// The registers of pointers, uniform numbers and waiting codes that are more than a thread has for them.
static unsigned countExcessNumbers(SweepOp sweep, unsigned numbers, const GpuTuning &tuning) {
  SetVector<Value> streams(llvm::from_range, getStreams(sweep));
  unsigned registers = numbers + 2 * streams.size() + countBufferedWords(sweep, tuning);
  unsigned limit = tuning.uniformRegisters;
  llvm::SmallDenseSet<unsigned> widths;
  for (Value tensors : streams)
    widths.insert(getBytes(tensors));
  if (sweep.getNumResults() > 1 || widths.size() > 1 || countDraws(sweep))
    limit -= tuning.otherRegisters;
  return registers - std::min(registers, limit);
}

// A function of several polynomials takes the registers that four loads of 32 bits leave, as six loads do, and two sums
// beside five loads.
static bool hasManyElements(SweepOp sweep) {
  unsigned bits = 0;
  for (Value tensors : sweep.getLoads())
    bits += getBits(tensors);
  Block &body = sweep.getBody().front();
  bool isLong = llvm::any_of(body, [](Operation &op) {
    auto function = dyn_cast<FunctionOp>(op);
    return function && llvm::is_contained({"math.powf", "math.atan2"}, function.getFunction());
  });
  return isLong || bits > 5 * 32 || (bits == 5 * 32 && sweep.getNumResults() > 1);
}

// Blocks per multiprocessor to request for a sweep whose uniform values may all be spilled to shared memory. The values
// that a block of elements shares, and sums beside draws or a split master, stay in registers through the whole body.
// Two sums beside a split master, as in LAMB, are not too many.
static unsigned chooseResidentBlocks(SweepOp sweep, const GpuTuning &tuning) {
  Region &body = sweep.getBody();
  unsigned draws = countDraws(sweep), sums = sweep.getNumResults();
  bool parts = !body.getOps<JoinCodesOp>().empty();
  SetVector<Value> streams(llvm::from_range, getStreams(sweep));
  unsigned pinned = 2 * streams.size() + countBufferedWords(sweep, tuning) + draws +
                    tuning.registersPerBlockReduction * getBlockReductions(body).size();
  if ((draws && sums > 1) || (parts && sums > 2))
    pinned += sums * (sweep.getFastPath() ? tuning.registersPerGuardedSum : tuning.registersPerSum);
  // Lists per column come beside all others, and a walk with sums keeps two kinds of partial results.
  bool hasColumns = llvm::any_of(streams, isPerColumn), hasTwoPartials = sweep.getCombine() && sums;
  bool needsRegisters = pinned > tuning.pinnedRegisters || hasColumns || hasManyElements(sweep);
  return tuning.residentBlocks - needsRegisters - hasTwoPartials;
}

static bool hasRegistersForPrefetch(SweepOp sweep, const GpuTuning &tuning) {
  int64_t words = 0;
  for (unsigned index : loadsAfterReductions(sweep).set_bits())
    words += getWidth(sweep, tuning) * getBits(sweep.getLoads()[index]) / 32;
  int64_t searches = llvm::count_if(sweep.getWide().front().getOps<EncodeOp>(), getTable);
  bool isGuarded = sweep.getWide().size() > 1;
  return words + tuning.wordsPerSearch * searches + tuning.wordsPerGuard * isGuarded <= tuning.aheadWords;
}

//===-- Shared memory -------------------------------------------------------===//

// Sums whose bits depend on their order.
static unsigned countOrdered(SweepOp sweep) {
  unsigned ordered = 0;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    ordered += isOrdered(sweep.getReduction(i));
  return ordered;
}

namespace {
class ResourceFitter {
public:
  ResourceFitter(PhaseOp phase, const Target &target, int64_t limit)
      : phase(phase), target(target), tuning(target.gpu), budget{Builder(phase.getContext()), tuning, limit} {}

  LogicalResult run() {
    resources.blocks = tuning.residentBlocks;
    if (needsSharedWords(phase))
      budget.reserve("words", wordCount * sharedWordBytes);
    budget.reserve("books", bookBytes(phase));
    SweepOp sweep = phase.getSweep();
    if (sweep && joinsWarps(sweep)) {
      budget.reserve("warps", ALTGRAD_BLOCK_THREADS / warpThreads * sharedWordBytes);
      budget.reserve("terms", countOrdered(sweep) * getWidth(sweep, tuning) * getStride(sharedWordBytes));
    }
    if (sweep && sweep.getTiles())
      reserveTile(sweep.getTiles());
    if (budget.used > budget.most)
      return refuse();
    if (sweep)
      fit(sweep);
    resources.shared = budget.shared;
    resources.setOn(phase);
    return success();
  }

private:
  // A square's numbers are more than a kernel may name itself.
  void reserveTile(SweepOp tiles) {
    TileSweep tile(tiles);
    if (tile.isSquare())
      budget.reserveAtLaunch("tile", ALTGRAD_SQUARE_BYTES);
    else
      budget.reserve("tile", tile.rows() * tileColumns * sharedWordBytes);
    budget.reserve("halves", getStride(sharedWordBytes));
    if (tile.isSquare())
      resources.blocks = std::min(resources.blocks, tuning.residentSquare);
  }

  void fit(SweepOp sweep) {
    reserveSums(sweep);
    bool drawsFit = reserveDraws(sweep);
    reserveScalars(sweep);
    reserveKeptValues(sweep);
    if (!sweep.getTiles())
      resources.blocks = chooseResidentBlocks(sweep, tuning);
    else if (!drawsFit) // they are in registers
      resources.blocks = std::min(resources.blocks, tuning.residentBlocks - 1);
  }

  // Of several sums in order the first ones; the others are registers.
  void reserveSums(SweepOp sweep) {
    unsigned ordered = joinsWarps(sweep) ? 0 : countOrdered(sweep), bytes = sweep.getWidth() * sharedWordBytes;
    unsigned vectors = ALTGRAD_LANES / warpThreads / sweep.getWidth();
    if (ordered > 1)
      budget.reservePerThread("sums", vectors * std::min(ordered, budget.entriesAtOccupancy(bytes) / vectors), bytes);
  }

  // Registers are for the elements: what was drawn waits, and so does what all of a chunk's calls have in common.
  // Gives whether all of it does.
  bool reserveDraws(SweepOp sweep) {
    auto draws = sweep.getBody().getOps<DrawOp>();
    if (draws.empty())
      return true;
    unsigned words = countAllDrawWords(sweep.getBody()), fixed = 2 + llvm::range_size(draws);
    bool wait = budget.entriesAtOccupancy(sharedWordBytes) >= words;
    if (wait)
      budget.reservePerThread("draws", words, sharedWordBytes);
    bool sameKey = llvm::all_of(draws, [&](DrawOp draw) { return draw.getSeed() == (*draws.begin()).getSeed(); });
    bool haveRoom = sameKey && budget.entriesAtOccupancy(counterBytes) >= fixed;
    if (haveRoom)
      budget.reservePerThread("counters", fixed, counterBytes);
    return wait && haveRoom;
  }

  void reserveScalars(SweepOp sweep) {
    unsigned numbers = getNumbers(sweep).size();
    budget.reservePerThread(
        "scalars",
        std::min({countExcessNumbers(sweep, numbers, tuning), numbers, budget.entriesAtOccupancy(sharedWordBytes)}),
        sharedWordBytes);
  }

  // What a stage keeps for later ones and has no room, they compute again. A sweep over tiles keeps nothing.
  void reserveKeptValues(SweepOp sweep) {
    unsigned bytes = sweep.getWidth() * sharedWordBytes, vectors = getWidth(sweep, tuning) / sweep.getWidth(), all = 0;
    for (auto [number, stage] : llvm::enumerate(getStages(sweep.getBody()))) {
      unsigned wanted = stage.getKept().size(), count = 0;
      for (; !sweep.getTiles() && !sweep.usesTiles() && count < wanted && budget.maxEntries(bytes) >= vectors; ++count)
        budget.reservePerThread("kept" + Twine(all++), vectors, bytes);
      for (Region &body : sweep->getRegions())
        getStages(body)[number].getKeptMutable().erase(count, wanted - count);
    }
    resources.ahead = all && hasRegistersForPrefetch(sweep, tuning);
  }

  LogicalResult refuse() {
    InFlightDiagnostic error = phase.emitOpError() << "'" << phase.getName() << "' needs " << budget.used
                                                   << " bytes of shared memory, of which '" << target.name << "' has "
                                                   << budget.most << ":";
    for (NamedAttribute variable : budget.shared)
      error << " " << variable.getName().getValue() << " " << cast<IntegerAttr>(variable.getValue()).getInt();
    return error << "; store fewer lists in code books, or in blocks of columns or squares, or of 256 elements at most";
  }

  PhaseOp phase;
  const Target &target;
  const GpuTuning &tuning;
  SharedMemoryBudget budget;
  KernelResources resources;
};

struct FitResources : altgrad::impl::FitResourcesPassBase<FitResources> {
  using FitResourcesPassBase::FitResourcesPassBase;

  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::Vectorized, Form::FastPath, /*inPhases=*/true)))
      return signalPassFailure();
    auto fit = [&](PhaseOp phase, SweepOp sweep, const Target &machine) -> LogicalResult {
      if (phase.getPhaseKind() == PhaseKind::Matrix)
        return success();
      if (sweep && failed(checkSweep(sweep, machine)))
        return failure();
      return ResourceFitter(phase, machine, shared ? int64_t(shared) : machine.gpu.staticSharedBytes).run();
    };
    if (failed(forEachPhase(getOperation(), target, fit)))
      signalPassFailure();
  }
};
} // namespace
