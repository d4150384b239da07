// The tables that kernels read, and what runs phases on a device.
#ifndef ALTGRAD_RUNTIME_EXECUTOR_H
#define ALTGRAD_RUNTIME_EXECUTOR_H

#include "altgrad/bundle.h"
#include "bundle/Bundle.h"

#include <functional>
#include <memory>
#include <vector>

namespace altgrad::runtime {

// The order of the parts in device memory: what changes together is side by
// side, and sent in one copy. The second one counts blocks and is 0 whenever
// nothing runs, so it is sent like the others.
enum Table { SetTable, FinishedTable, ChunkTable, RowTable, GroupTable, ScalarTable, ValueTable, InputTable };
constexpr int tableCount = 8;

struct Tables {
  std::vector<uint64_t> rows, inputs, groups, scalars;
  // Then tiles, runs of rows and matrices, where a phase has them.
  std::vector<altgrad_chunk> chunks;
  // Where each set begins, and the end.
  std::vector<int64_t> setRows, setChunks, setTiles, setRuns, setMatrices, setTensors;
  std::vector<int64_t> setSquares[2]; // of rows x rows and of columns x columns
  std::vector<int64_t> firstRows;  // of each tensor, and the end
  std::vector<uint64_t> groupSets; // of each group: a bit for every set it has
  int64_t nrows = 0, ngroups = 0;
  int64_t columnFloats = 0; // of all lists per column in the workspace
  // The caller's block of values that is mirrored on the device.
  const void *values = nullptr;
  size_t valueBytes = 0;
  uint32_t finished = 0;

  int64_t nchunks() const { return setChunks.empty() ? 0 : setChunks.back(); }
  bool isMirrored(uint64_t address) const { return address - uint64_t(values) < valueBytes; }
  // Whether a group has a tensor of a set; of any set where it is -1.
  bool groupHas(int64_t group, int64_t set) const;

  const void *data(int table) const;
  size_t bytes(int table) const;
};

// Items of a phase, rows, tensors or phases.
struct Items {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

// Who keeps the caller's memory for captured graphs; see altgrad_set_owner.
struct Owner {
  void *(*hold)(void *context) = nullptr;
  void (*release)(void *held) = nullptr;
  void *context = nullptr;
};

// What phases are done for: no other rows and chunks.
struct LaunchRange {
  Items rows{0, INT64_MAX}, chunks{0, INT64_MAX};
  bool isWhole() const { return rows.end == INT64_MAX && chunks.end == INT64_MAX; }
};

// Who multiplies matrices; see altgrad_set_gemm.
struct Gemm {
  altgrad_multiply multiply = nullptr;
  void *context = nullptr;
};

// Who else does symmetric products; see altgrad_set_symmetric_gemm.
struct SymmetricGemm : Gemm {
  std::string name;
};

// Who factorizes squares; see altgrad_set_factorize.
struct Factorize {
  altgrad_factorize factorize = nullptr;
  void *context = nullptr;
};

// Who multiplies on a GPU where nobody else does.
class GemmLibrary {
public:
  virtual ~GemmLibrary() = default;
  virtual altgrad_status multiply(const altgrad_gemm &product) = 0;
};

// Who may do symmetric products instead; `library` does the same product, in `strips` of rows where it can.
class SymmetricProducts {
public:
  using Library = std::function<altgrad_status(int32_t strips)>;
  virtual ~SymmetricProducts() = default;
  // `alone`: bits may depend on nothing but the matrices.
  virtual altgrad_status multiply(const altgrad_gemm &product, bool alone, const Library &library) = 0;
};

struct Launch {
  altgrad_args args; // host pointers of the tables, workspace on the device
  int64_t first, last;
  LaunchRange part;
  void *stream;
  altgrad_parallel_for parallelFor;
  int threads;
  Owner owner;
  Gemm gemm;
  Factorize factorize;
  GemmLibrary *library = nullptr; // on a GPU without `gemm`
  SymmetricProducts *symmetric = nullptr;
  int32_t device = -1; // the GPU's number; -1: the CPU
};

// Runs phases on one device. `changed` has a bit for every table that differs
// from the last successful run; run clears the bits it has taken over.
class Executor {
public:
  virtual ~Executor() = default;
  virtual altgrad_status prepare(const Tables &tables) = 0;
  virtual altgrad_status run(const Tables &tables, const Launch &launch, unsigned &changed) = 0;
  // Whether kernels read a copy of Tables::values.
  virtual bool mirrors() const { return false; }
  // Whether run() can do a part of a phase.
  virtual bool runsRanges() const { return false; }
};

altgrad_status createHostExecutor(const Bundle &bundle, const char *level, std::unique_ptr<Executor> &out);
// `ordinal` < 0: the device of the current context.
altgrad_status createCudaExecutor(const Bundle &bundle, int ordinal, std::unique_ptr<Executor> &out);

// Which capture records what is given to a CUstream; 0: none.
altgrad_status findCapture(void *stream, uint64_t &capture);

Items itemsOf(const Phase &phase, const Tables &tables, const LaunchRange &part);

// The tensors of a set; all where it is -1.
Items tensorsOf(int64_t set, const Tables &tables);

// How many pointers a scalar is bound to.
int64_t pointersOf(const Scalar &scalar, const Tables &tables);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_EXECUTOR_H
