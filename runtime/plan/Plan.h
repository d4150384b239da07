// A plan: tensors bound to tables, and what executes them.
#ifndef ALTGRAD_RUNTIME_PLAN_H
#define ALTGRAD_RUNTIME_PLAN_H

#include "executor/Executor.h"

#include <memory>
#include <optional>
#include <vector>

namespace altgrad::runtime {

// Where the parts of a workspace lie, each on a 64-byte boundary.
constexpr uint64_t workspaceAlignment = 64;
struct WorkspaceLayout {
  uint64_t rowWords = 0, chunkWords = 0, spills = 0, bytes = 0;
};

} // namespace altgrad::runtime

struct altgrad_plan {
  altgrad_status bindTensors(const std::vector<altgrad_tensor> &tensors, int64_t ngroups);
  // A pointer for each tensor of the stream's set.
  altgrad_status bindStream(size_t index, void *const *pointers);
  // The pointer of one tensor of the stream's set, for a stream that is bound.
  altgrad_status bindTensor(size_t index, int64_t tensor, void *pointer);
  altgrad_status bindScalar(size_t index, void *const *pointers, int64_t count);
  altgrad_status mirror(const void *values, uint64_t bytes);
  // Which tensors take part in the next runs: a byte for each, or null for all.
  altgrad_status select(const uint8_t *present, int64_t count);
  altgrad_status run(void *workspace, uint64_t bytes, int64_t first, int64_t last, void *stream);
  // A sweep over some chunks.
  altgrad_status runChunks(void *workspace, uint64_t bytes, int64_t phase, altgrad::runtime::Items part);
  altgrad_status runTensors(void *workspace, uint64_t bytes, altgrad::runtime::Items phases,
                            altgrad::runtime::Items tensors, void *stream);

  std::shared_ptr<const altgrad::runtime::Bundle> bundle;
  std::unique_ptr<altgrad::runtime::Executor> executor;
  altgrad::runtime::Tables tables; // of all tensors
  // What kernels read.
  const altgrad::runtime::Tables &running() const { return present.empty() ? tables : selected; }
  altgrad::runtime::WorkspaceLayout layout;
  bool isPresent(int64_t tensor) const { return present.empty() || present[size_t(tensor)]; }
  // Where in the workspace a word of a tensor's first row lies.
  uint64_t wordOf(int64_t tensor, int64_t word) const {
    const int64_t words = bundle->manifest().workspaceRowWords;
    return layout.rowWords + 8 * uint64_t(running().firstRows[size_t(tensor)] * words + word);
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
  altgrad::runtime::Factorize factorize;

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
  bool readsTensors(const altgrad::runtime::Launch &launch) const;
  altgrad_status checkPhases(int64_t first, int64_t last) const;
  altgrad_status launch(altgrad::runtime::Launch &launch, void *workspace, uint64_t bytes,
                        std::optional<altgrad::runtime::Items> tensors = std::nullopt);
  altgrad_status checkPointer(const altgrad::runtime::Stream &stream, int64_t tensor, void *pointer) const;
  // Gives the rows of `tensors` their pointers; those of a tensor's units lie
  // one behind the other where it is of a stream, or `distance` bytes apart. True if one is new.
  bool placeRows(std::vector<uint64_t> &words, size_t width, size_t slot, altgrad::runtime::Items tensors,
                 void *const *pointers, const altgrad::runtime::Stream *stream, uint64_t distance = 0) const;
  bool placeGroups(const altgrad::runtime::Scalar &scalar, void *const *pointers);
  void checkOff(std::vector<char> &bound, size_t index);
  altgrad_status nameUnbound() const;
};

#endif // ALTGRAD_RUNTIME_PLAN_H
