// A plan: the tables that kernels read, and what executes them.
#ifndef ALTGRAD_RUNTIME_PLAN_H
#define ALTGRAD_RUNTIME_PLAN_H

#include "altgrad/bundle.h"
#include "bundle/Bundle.h"

#include <memory>
#include <optional>
#include <vector>

namespace altgrad::runtime {

// The order of the parts in device memory: what changes together is side by
// side, and sent in one copy. The second one counts blocks and is 0 whenever
// nothing runs, so it is sent like the others.
enum Table {
  SetTable,
  FinishedTable,
  ChunkTable,
  RowTable,
  GroupTable,
  ScalarTable,
  ValueTable,
  InputTable
};
constexpr int tableCount = 8;

struct Tables {
  std::vector<uint64_t> rows, inputs, groups, scalars;
  std::vector<altgrad_chunk> chunks; // then tiles, where a phase has them
  // Where each set begins, and the end.
  std::vector<int64_t> setRows, setChunks, setTiles, setTensors;
  std::vector<int64_t> firstRows;  // of each tensor, and the end
  std::vector<uint64_t> groupSets; // of each group: a bit for every set it has
  int64_t nrows = 0, ngroups = 0;
  // The caller's block of values that is mirrored on the device.
  const void *values = nullptr;
  size_t valueBytes = 0;
  uint32_t finished = 0;

  int64_t nchunks() const { return setChunks.empty() ? 0 : setChunks.back(); }
  bool isMirrored(uint64_t address) const {
    return address - uint64_t(values) < valueBytes;
  }
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
struct Part {
  Items rows{0, INT64_MAX}, chunks{0, INT64_MAX};
  bool isWhole() const {
    return rows.end == INT64_MAX && chunks.end == INT64_MAX;
  }
};

// Who multiplies matrices; see altgrad_set_gemm.
struct Gemm {
  altgrad_multiply multiply = nullptr;
  void *context = nullptr;
};

struct Launch {
  altgrad_args args; // host pointers of the tables, workspace on the device
  int64_t first, last;
  Part part;
  void *stream;
  altgrad_parallel_for parallelFor;
  int threads;
  Owner owner;
  Gemm gemm;
};

// Runs phases on one device. `changed` has a bit for every table that differs
// from the last successful run; run clears the bits it has taken over.
class Executor {
public:
  virtual ~Executor() = default;
  virtual altgrad_status prepare(const Tables &tables) = 0;
  virtual altgrad_status run(const Tables &tables, const Launch &launch,
                             unsigned &changed) = 0;
  // Whether kernels read a copy of Tables::values.
  virtual bool mirrors() const { return false; }
  // Whether run() can do a part of a phase.
  virtual bool runsParts() const { return false; }
};

altgrad_status createHostExecutor(const Bundle &bundle, const char *level,
                                  std::unique_ptr<Executor> &out);
// `ordinal` < 0: the device of the current context.
altgrad_status createCudaExecutor(const Bundle &bundle, int ordinal,
                                  std::unique_ptr<Executor> &out);

// Which capture records what is given to a CUstream; 0: none.
altgrad_status findCapture(void *stream, uint64_t &capture);

Items itemsOf(const Phase &phase, const Tables &tables, const Part &part);

// The tensors of a set; all where it is -1.
Items tensorsOf(int64_t set, const Tables &tables);

// How many pointers a scalar is bound to.
int64_t pointersOf(const Scalar &scalar, const Tables &tables);

// Where the parts of a workspace lie, each on a 64-byte boundary.
constexpr uint64_t workspaceAlignment = 64;
struct WorkspaceLayout {
  uint64_t rowWords = 0, chunkWords = 0, spills = 0, bytes = 0;
};

} // namespace altgrad::runtime

struct altgrad_plan {
  altgrad_status bindTensors(const std::vector<altgrad_tensor> &tensors,
                             int64_t ngroups);
  // A pointer for each tensor of the stream's set.
  altgrad_status bindStream(size_t index, void *const *pointers);
  // The pointer of one tensor of the stream's set, for a stream that is bound.
  altgrad_status bindTensor(size_t index, int64_t tensor, void *pointer);
  altgrad_status bindScalar(size_t index, void *const *pointers, int64_t count);
  altgrad_status mirror(const void *values, uint64_t bytes);
  // Which tensors take part in the next runs: a byte for each, or null for all.
  altgrad_status select(const uint8_t *present, int64_t count);
  altgrad_status run(void *workspace, uint64_t bytes, int64_t first,
                     int64_t last, void *stream);
  // A sweep over some chunks.
  altgrad_status runChunks(void *workspace, uint64_t bytes, int64_t phase,
                           altgrad::runtime::Items part);
  altgrad_status runTensors(void *workspace, uint64_t bytes,
                            altgrad::runtime::Items phases,
                            altgrad::runtime::Items tensors, void *stream);

  std::shared_ptr<const altgrad::runtime::Bundle> bundle;
  std::unique_ptr<altgrad::runtime::Executor> executor;
  altgrad::runtime::Tables tables; // of all tensors
  // What kernels read.
  const altgrad::runtime::Tables &running() const {
    return present.empty() ? tables : selected;
  }
  altgrad::runtime::WorkspaceLayout layout;
  bool isPresent(int64_t tensor) const {
    return present.empty() || present[size_t(tensor)];
  }
  // Where in the workspace a word of a tensor's first row lies.
  uint64_t wordOf(int64_t tensor, int64_t word) const {
    const int64_t words = bundle->manifest().workspaceRowWords;
    return layout.rowWords +
           8 * uint64_t(running().firstRows[size_t(tensor)] * words + word);
  }
  std::vector<char> streamBound, scalarBound;
  int64_t unbound = 0;
  bool declared = false;
  bool prepared = false; // the executor has room for the tables
  unsigned changed = 0;
  altgrad_parallel_for parallelFor = nullptr;
  int threads = 1;
  altgrad::runtime::Owner owner;
  altgrad::runtime::Gemm gemm;

private:
  altgrad_status prepare();
  altgrad_status refreshSelection();
  static constexpr unsigned allTables = (1u << altgrad::runtime::tableCount) - 1;
  void mark(unsigned tables) {
    changed |= tables;
    unselected |= tables;
  }

  std::vector<uint8_t> present; // empty: all
  altgrad::runtime::Tables selected;
  unsigned unselected = 0; // tables that `selected` does not have yet
  altgrad_status checkPhases(int64_t first, int64_t last) const;
  altgrad_status
  launch(altgrad::runtime::Launch &launch, void *workspace, uint64_t bytes,
         std::optional<altgrad::runtime::Items> tensors = std::nullopt);
  altgrad_status checkPointer(const altgrad::runtime::Stream &stream,
                              int64_t tensor, void *pointer) const;
  // Gives the rows of `tensors` their pointers; those of a tensor's units lie
  // one behind the other where it is of a stream. True if one is new.
  bool placeRows(std::vector<uint64_t> &words, size_t width, size_t slot,
                 altgrad::runtime::Items tensors, void *const *pointers,
                 const altgrad::runtime::Stream *stream) const;
  bool placeGroups(const altgrad::runtime::Scalar &scalar,
                   void *const *pointers);
  void checkOff(std::vector<char> &bound, size_t index);
  altgrad_status nameUnbound() const;
};

#endif // ALTGRAD_RUNTIME_PLAN_H
