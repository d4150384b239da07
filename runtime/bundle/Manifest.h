// The manifest of a bundle as data, every number of it checked.
#ifndef ALTGRAD_RUNTIME_MANIFEST_H
#define ALTGRAD_RUNTIME_MANIFEST_H

#include <cstdint>
#include <string>
#include <vector>

namespace altgrad::runtime {

enum class Access { In, Out, InOut };
enum class Scope { Step, Group, Tensor };
enum class Domain { Chunks, Rows, Once };

struct Stream {
  std::string name;
  Access access;
  int64_t bytes; // of one element; the alignment its pointers must have
  int64_t slot, set;
};

struct Scalar {
  std::string name;
  Scope scope;
  int64_t bytes;
  int64_t slot;
};

struct Phase {
  std::string name, symbol;
  Domain domain;
  int64_t set; // -1: all
  int64_t perBlock;
};

// A parsed manifest keeps the promise that every slot lies inside its table and
// no two names share one.
struct Manifest {
  std::vector<std::string> host, ptx;
  int64_t rowWords, inputs, groupScalars, stepScalars, sets;
  std::vector<Stream> streams;
  std::vector<Scalar> scalars;
  std::vector<Phase> phases;
  int64_t workspaceStepWords, workspaceRowWords, workspaceChunkWords, spills;
};

// Throws std::exception with place and value when `text` is not a manifest.
Manifest parseManifest(const char *text, size_t size);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_MANIFEST_H
