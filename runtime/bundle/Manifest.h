// The manifest of a bundle as data.
#ifndef ALTGRAD_RUNTIME_MANIFEST_H
#define ALTGRAD_RUNTIME_MANIFEST_H

#include <cstdint>
#include <string>
#include <vector>

namespace altgrad::runtime {

enum class Domain { Chunks, Rows, Once };

// Of which side of a matrix a square has as many rows; None: it is the matrix itself.
enum class Side { None, Rows, Columns };

// Roles, accesses, types, scopes, kinds and reductions are numbers of
// altgrad.h.
struct Stream {
  std::string name, key, format;
  int32_t role, access;
  int64_t set;
  int64_t bits, block; // of one stored value; elements that share one
  int64_t columns;     // of a block that goes over rows: 1, or of a square; else 0
  bool perColumn;      // one row of values for each tensor
  Side square;         // what it is a square of; else None
  int32_t even;        // where a byte has two
  int64_t slot;

  int64_t bytes(int64_t numel) const { return (numel / block * bits + 7) / 8; }
  // From a unit of a tensor to the next one.
  int64_t bytesOfUnit(int64_t numel) const { return perColumn || square != Side::None ? 0 : bytes(numel); }
  // What its pointers must be multiples of.
  int64_t alignment() const { return bits < 8 ? 1 : bits / 8; }
};

struct Scalar {
  std::string name, key;
  int32_t role, access, type, scope;
  int64_t set; // -1: of every set, or of the step
  int64_t bytes;
  int64_t slot;
  bool hasDefault;
  double value; // the default
};

// Which matrices are multiplied, where n and m are the lengths of a tensor's shorter and longer side:
// n x m and its transpose, n x n and n x n, n x n and n x m.
// Then those of matrices that say their rows and columns.
enum class Form { Gram, Square, Side, Matmul, Eigenbasis, Order, Orthonormal, InverseRoot, Identity };

// A matrix of such a product: its list among those of its kind, or the bytes of lists before it; or the word of a table
// that has its address.
enum class Source { Workspace, Rows, Inputs };
struct Operand {
  Side of;
  Source in = Source::Workspace;
  int64_t list;
  bool transposed;
  bool isList(const Operand &other) const { return of == other.of && in == other.in && list == other.list; }
};

struct Product {
  Form form;
  int32_t type;  // of gemm.h
  int64_t bytes; // of a code
  // Where the lists lie: bytes of lists before them, for each element. -1: nothing is added.
  int64_t left, right, added, into;
  bool alone; // each matrix has calls of its own
  double factor, weight, shift;
  double least, below; // the tensors that it is for, by longer over shorter side
  // Of the later forms in the place of left, right, added and into.
  Operand operands[3];
  double root;
  int permutation = -1; // which operand is one, of a matmul in the phase that makes it

  bool isGeneral() const { return form >= Form::Matmul; }
  // Whether it is a matrix times its transpose.
  bool isSymmetric() const {
    return form == Form::Matmul && operands[0].isList(operands[1]) && operands[0].transposed != operands[1].transposed;
  }
};

// Lists of squares in the workspace: the word behind a row's header that says where a tensor's lie, or -1, how many
// there are of either kind, and how many words of each chunk of such a square lie behind them.
struct SquareLists {
  int64_t slot = -1, rows = 0, columns = 0, rowWords = 0, columnWords = 0;
};

// What the items of a sweep are: chunks or tiles; runs of rows, one after the other; the first rows of a matrix's runs;
// the first row of a matrix; chunks of a square.
enum class Walk { Chunks, Runs, Heads, Columns, RowSquares, ColumnSquares };

struct Phase {
  std::string name, symbol;
  int32_t kind;
  Domain domain;
  int64_t set;      // -1: all
  int64_t perBlock; // items of a CUDA block
  int64_t finishes; // phases after it that its last block may do
  int64_t block;    // elements that become one value
  int64_t tiles;    // rows of the tiles that its chunks are; else 0
  Walk walk;
  double read, written;
  std::vector<Product> products; // of a matrix phase
  SquareLists squares;           // those of the workspace
  int64_t spills = 0;
};

struct Exchange {
  struct Word {
    int64_t word;
    int32_t reduction;
    std::string sum; // of a rule, by its name; else ""
  };
  int64_t phase;
  std::vector<Word> words;
};

struct SliceSum {
  int64_t phase, set, word; // the exchange is before this phase; word of a row
  int32_t reduction;
};

struct Limit {                     // what a format loses, and where
  std::string stream, hyper, text; // hyper "": with any values
  int64_t set;
  double above, below;
};

// A tensor is a row of the table, or has one for each unit that the caller gives, for each of its matrices, or for each
// of their rows.
enum class UnitKind { None, Given, Matrices, Rows };

struct Manifest {
  std::vector<std::string> host, ptx;
  int64_t rowWords, inputs, groupScalars, stepScalars, sets;
  std::vector<UnitKind> units; // of each set: what a row of the table is
  std::vector<bool> places;    // of each set: whether an element's place in its tensor matters
  std::vector<Stream> streams;
  std::vector<Scalar> scalars;
  std::vector<Phase> phases;
  std::vector<Exchange> exchanges;
  std::vector<SliceSum> partials;
  std::vector<Limit> warnings;
  int64_t workspaceStepWords, workspaceRowWords, workspaceChunkWords, spills;
  // Lists per column in the workspace: the word behind a row's header that says where a tensor's lie, or -1; how many
  // have one row of values for a tensor, and how many one for each run of its rows.
  int64_t columnSlot = -1, columnLists = 0, columnRuns = 0;

  SquareLists squares;

  /// Whether a set has squares of this side, as a stream, in a sweep or in a product.
  bool hasSquares(int64_t set, Side side) const;
  bool hasColumns(int64_t set) const { return units[size_t(set)] == UnitKind::Rows; }
  bool hasUnits(int64_t set) const { return units[size_t(set)] != UnitKind::None; }
  /// Of whose elements a unit is a multiple where a tensor of the set has several.
  int64_t unitMultiple(int64_t set) const;
  /// Of whose elements a row is a multiple where a tensor of the set has several.
  int64_t rowMultiple(int64_t set) const;
  /// Rows of the tiles of its sweeps; 0 where none goes over tiles.
  int64_t tileRows(int64_t set) const;
  /// Whether its matrices have no fewer rows than columns: an orthonormal basis of the columns is found.
  bool areTall(int64_t set) const;
  /// The first phase that multiplies the set's matrices; null where none does.
  const Phase *matrixPhase(int64_t set) const;
};

// Throws std::exception where `text` is no manifest of this version.
Manifest parseManifest(const std::string &text);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_MANIFEST_H
