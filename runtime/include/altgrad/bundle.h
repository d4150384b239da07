// What a bundle is. This header and format.h are all that the compiler and the
// runtime share.
//
// A bundle is an x86-64 shared object, behind which ALTGRAD_BUNDLE_END and the SHA-256, in 32 bytes, of all bytes
// before the digest end the file. Loaders do not look there. It exports
//
//   const char altgrad_manifest[];        JSON, NUL-terminated
//   const char altgrad_ptx_<target>[];    PTX text, NUL-terminated (sm_80, ...)
//   const char altgrad_cubin_<target>[];  the same as machine code, if it was made
//   void <phase symbol>_<level>(...)      one host kernel per phase and level
//                                         ("v3", "v4": x86-64-v3, x86-64-v4)
//   int64_t altgrad_prefetch;             bytes a sweep prefetches ahead on a
//                                         host; 0 until the runtime sets it
//
// Manifest. Only "columns" and "squares" of the workspace, and "walk" and "per" below, may be absent:
//
//   {"altgrad": 5, "step": "train", "producer": "...",
//    "host": ["v3", "v4"], "ptx": ["sm_80", "sm_90"],
//    "sets": 1,             kinds of tensors: lists of other tensors are another set
//    "row_words": 14,       words of a descriptor row, header included
//    "inputs": 1,           moving pointers of a row (streams of access "in")
//    "streams": [{"name": "m", "key": "m", "role": "state", "access": "inout",
//                 "format": "bf16", "bits": 16, "even": "none", "block": 1,
//                 "columns": 0, "slot": 0, "set": 0}, ...],
//    "scalars": [{"name": "lr", "key": "lr", "role": "hyper", "access": "in",
//                 "type": "f64", "scope": "group", "slot": 0, "set": 0,
//                 "default": 0.001}, ...],
//    "group_scalars": 6, "step_scalars": 2, "units": ["none"], "places": [false],
//    "workspace": {"step_words": 4, "row_words": 9, "chunk_words": 1,
//                  "spills": 0, "columns": {"slot": 5, "lists": 2, "runs": 1}},
//    "phases": [{"name": "update", "symbol": "altgrad_train_update",
//                "kind": "sweep", "domain": "chunks", "set": 0, "per_block": 1,
//                "finishes": 0, "block": 1, "tiles": 0, "read": 16,
//                "written": 12.125}, ...],
//    "exchanges": [{"phase": 3,
//                   "words": [{"word": 0, "reduction": "sumsq"},
//                             {"word": 1, "reduction": "add", "sum": "prodigy.0"}, ...]}, ...],
//    "partials": [{"phase": 2, "set": 0, "word": 4, "reduction": "add"}, ...],
//    "warnings": [{"set": 0, "stream": "v", "hyper": "beta2", "above": 0.998,
//                  "below": 1, "text": "state 'v' in bf16 stands still ..."}, ...]}
//
// Names. "name" is unique in the step. "key" is the rule's name for the argument; it is
// unique among the arguments with the same "set" and "role" (a state and a
// hyper-parameter of one set may share a key). "role" is a word of ALTGRAD_ROLES
// or "none". "access" is in, out or inout.
//
// Sets. Every tensor belongs to one set, and tensors come set by set. A stream has
// tensors only in the rows of its "set". Streams and scalars of different sets share
// words of a row. Scalars of different sets share words of a group, and a group then
// belongs to one set. A scalar whose "set" is null has a place in every row or
// group, or belongs to the step.
//
// Slices. A tensor may be a slice of a whole: a run of its elements. Shape, tag and
// index of an element are the whole's, so that a slice and the whole get the same
// values. What a tensor has of its own are its memory, elements, chunks and tiles, units
// and reductions over the tensor.
//
// Streams. "slot" counts words of `inputs` for access "in", and words after the row's
// header otherwise. "bits" is the width of one stored value and "block" the number of
// elements that share one, so a stream moves bits / (8 * block) bytes per element. Two
// values of 4 bits share a byte. "even" says which half is the even element's,
// "low" or "high" (format.h); otherwise it is "none". After an odd number of them the
// last byte ends in four zeros.
//
// If "columns" of a stream is 1, its blocks are 32 elements of a column: element
// (i, j) of the rows of all matrices of a tensor has value (i / 32, j). If "columns" is
// 128, "block" is, too, and the element has value (i / 128, j / 128).
//
// Scalars. "scope" is step, group, tensor or unit. A state of units is an f32 for each, one behind the other. "slot"
// counts pointers of `scalars`, of a group's part of `groups`, or words after the row's header (in one numbering with
// the streams). "default" is null if the rule gives none.
//
// Units. For each set "units" says what they are: "none", "given" by the caller, the
// "matrices" of a stack, or the "rows" of a matrix that has the rows of all matrices
// of its tensor, in a set with values per column. Each unit of a tensor has a row of
// the table and chunks of its own, one behind the other. Shape, tag, group and
// scalars are the tensor's and the same in all its rows. The first of its rows
// writes a scalar of the tensor, in a phase after all that read it.
//
// Columns. A stream with "per": "column" has one value for each column of such a
// matrix, and its pointer is the same in all rows. Behind the lists of `spills`,
// tensor by tensor, lie lists of f32: "lists" of one row of values for a tensor, and
// then "runs" of one row for every ALTGRAD_RUN_ROWS rows. The word "slot" behind a
// row's header says how many floats behind the lists its tensor's begin. A sweep
// with a "walk" has items of its own, each a row and the first of at most
// ALTGRAD_CHUNK columns: "runs" are so many rows, "heads" the first rows of all runs
// of a tensor, and "columns" its first row. The rows of an item are done one after
// the other. Such a tensor is no slice.
//
// Squares. A stream with "per": "rows" or "columns" is a square matrix of f32 for each tensor, with as many rows as the
// matrix has rows or columns. "squares": {"slot": 5, "rows": 3, "columns": 2, "row_words": 1, "column_words": 0} says
// how many such lists the workspace has of either kind. They lie behind the lists per column: the word "slot" behind
// the header of a tensor's first row says how many floats behind the lists of `spills` the tensor's begin, those of
// rows first. Behind them lie as many words of each chunk of its squares, for partial sums. A sweep whose "walk" is
// "row_squares" or "column_squares" has the chunks of squares for items, which are listed behind all others. Such a
// tensor is one matrix and no slice.
//
// Places. For each set "places" says whether what an element becomes depends on where it is in its tensor. Elements of
// other sets may lie in any order, the same in all lists.
//
// Phases. "kind" is sweep, fold (a tensor's partial sums), total (the step's), scalars or
// matrix. "set" says whose chunks or rows the phase covers; null: all.
// "per_block" is the number of items that a block of a CUDA kernel does at a time.
// "finishes" is the number of phases after this one that the last block of its launch
// can do as well; none of them is a sweep, and an exchange comes after them at the
// earliest. "block" is the number of elements of the longest block of a row that a sweep
// reduces to one value, or 1. A slice begins and ends at multiples of every "block" of its
// set's streams and phases, or at the end of the whole. "read" and "written" are the
// bytes per element that a sweep moves.
//
// A sweep whose "tiles" is not 0 goes over tiles of this many rows, 32 or 128, and 128
// columns. Tiles are listed behind the chunks, set by set, by their first elements. In
// a tensor of several rows, each row is then a multiple of "block". On a GPU, a sweep
// over tiles of 128 rows has ALTGRAD_SQUARE_BYTES of dynamic shared memory.
//
// A matrix phase has no kernel. It has "products", of the lists that wait in the workspace between
// two phases:
//
//   {"form": "side", "format": "bf16", "left": 2, "right": 0, "added": 0, "into": 4, "alone": false,
//    "factor": 1, "weight": 3.4445, "shift": 0, "least": 1, "below": null}
//
// They are done in their order. A product applies to tensors with "least" <= longer side / shorter side < "below";
// null: no bound. n is the shorter side. If "alone" is true, each matrix is multiplied by calls of its own. The list
// "into" becomes factor * left right + weight * added, rounded once to "format", and "shift" is added to the diagonal
// of a square; "added" may be null. "form" says what is multiplied: gram, the matrix and its transpose on the side of
// n; square, two n x n matrices; side, one n x n and one of the tensor's shape. The numbers are the bytes of the lists
// before a list, for each element of all chunks: it begins at so many times nchunks * ALTGRAD_CHUNK bytes of `spills`,
// and a tensor's matrix at the tensor's first chunk.
//
// Matrices that say their rows and columns themselves have other entries:
//
//   {"form": "matmul", "format": "f32", "left": {"of": "rows", "list": 0, "transposed": true},
//    "right": {"of": "element", "list": 4, "transposed": false},
//    "into": {"of": "element", "list": 8, "transposed": false}, "root": 1}
//
// "of" says what a matrix is: the tensor's ("element"), where "list" is the bytes before its list as above, or a square
// of "rows" or "columns", where it is the number of the list among those of its kind. "form" is matmul, or eigenbasis,
// order, orthonormal, inverse_root or identity of the square "left"; "right" is then the basis of an order. gemm.h says
// what these are, and "root" which root.
//
// Exchanges. Before phase "phase" runs, the named step words hold this device's share
// of reductions over the step: an f32 for "add", "sumsq" and "max", an i32 for "and".
// The shares of other devices or ranks are combined with them, in the order of the
// devices, and written back there. Words with "sum" are of a rule's sum over the step: words of one sum are combined,
// and of an "add" the total is written to one of them and 0 to the others. A step compiled without --exchange has none.
//
// Partials. Before phase "phase" runs, word "word" of the first row of each tensor of
// the set holds the share that this tensor, as a slice, has in a reduction over the
// whole. The shares of other slices may be combined with it in the same way.
//
// Warnings. A warning is what `altgrad-opt --analyze` finds in the format of a
// parameter or a state. Its sentence holds if the hyper-parameter with this key, of
// a group of this set, lies between "above" and "below", or always if "hyper" is null.
#ifndef ALTGRAD_BUNDLE_H
#define ALTGRAD_BUNDLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ALTGRAD_ABI = 5,           // the "altgrad" of a manifest
  ALTGRAD_CHUNK = 4096,      // elements of one tensor in a chunk
  ALTGRAD_LANES = 256,       // partial sums of a chunk; lane = element mod 256
  ALTGRAD_BLOCK_LEAST = 16,  // elements that share a scale, at the least
  ALTGRAD_BLOCK_MOST = 2048, // and at the most: a power of two of them
  ALTGRAD_TILE_COLUMNS = 128,  // columns of a tile; with 32 rows it has 4096 elements
  ALTGRAD_SQUARE_BYTES = 65536, // an f32 for each element of 128 x 128
  ALTGRAD_RUN_ROWS = 32,     // rows of a matrix whose columns are combined one after the other
  ALTGRAD_ROW_HEADER = 12,   // words of a row before its pointers
  ALTGRAD_SETS = 64,         // a step has at most this many sets
  ALTGRAD_HISTORY = 101,     // f32 in the memory of a history
  ALTGRAD_BLOCK_THREADS = 256 // threads of a CUDA block, in every kernel
};

// What a stream or a scalar of a step is: X(word, WORD). Streams come first.
//
// `max_norm` is the bound of a clip, and `norm` the norm that was found. `scale` is a loss
// scale and `inv_scale` its inverse. `flag` is 1.0 if a gradient was not finite.
// `scaler` are the numbers of a loss scaler; `altgrad-opt --loss-scaler` gives them
// their keys. `statistic` is what `--statistics` measures of each tensor and of the step.
//
// A `block_scale` belongs to the list of its set that has the same key: an element of
// that list is its code times the scale of its block. A `remainder` and the parameter
// of its set are the two halves of an f32. The parameter is the upper half, plus one
// where the lower half is negative.
//
// A `tensor_scale` is an f32 for each tensor, beside its copy. `copy_scale` is what codes
// are multiplied by (`copy_tensor_scale` where their blocks have scales, too).
// `copy_amax` is the largest magnitude, from which the next step's scale follows.
// `grad_scale` is what `--quantize --scales=tensor` divides by; an `input` with this key
// has such scales of elements or blocks.
//
// A `history` points to ALTGRAD_HISTORY f32: the place of the next number, from 0, and the
// last 100 numbers, which are NaN until they are written.
#define ALTGRAD_LIST_ROLES(X)                                                  \
  X(param, PARAM)                                                              \
  X(grad, GRAD)                                                                \
  X(state, STATE)                                                              \
  X(master, MASTER)                                                            \
  X(copy, COPY)                                                                \
  X(block_scale, BLOCK_SCALE)                                                  \
  X(remainder, REMAINDER)                                                      \
  X(input, INPUT)
#define ALTGRAD_SCALAR_ROLES(X)                                                \
  X(hyper, HYPER)                                                              \
  X(step, STEP)                                                                \
  X(max_norm, MAX_NORM)                                                        \
  X(norm, NORM)                                                                \
  X(scale, SCALE)                                                              \
  X(inv_scale, INV_SCALE)                                                      \
  X(flag, FLAG)                                                                \
  X(scaler, SCALER)                                                            \
  X(statistic, STATISTIC)                                                      \
  X(random, RANDOM)                                                            \
  X(history, HISTORY)                                                          \
  X(tensor_scale, TENSOR_SCALE)
#define ALTGRAD_ROLES(X) ALTGRAD_LIST_ROLES(X) ALTGRAD_SCALAR_ROLES(X)

enum altgrad_role {
  ALTGRAD_ROLE_NONE,
#define ALTGRAD_ROLE(word, WORD) ALTGRAD_ROLE_##WORD,
  ALTGRAD_ROLES(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};

// The header of a descriptor row. All words are 64 bits wide.
enum altgrad_row_word {
  ALTGRAD_ROW_NUMEL = 0,       // its elements
  ALTGRAD_ROW_OFFSET = 1,      // index in the whole of its first element
  ALTGRAD_ROW_TAG = 2,         // key of its random bits
  ALTGRAD_ROW_GROUP = 3,       // row of `groups`
  ALTGRAD_ROW_FIRST_CHUNK = 4, // index of its first chunk
  ALTGRAD_ROW_CHUNKS = 5,      // number of its chunks, 0 for an empty tensor
  ALTGRAD_ROW_TENSOR = 6,      // the first row of its tensor: itself without units
  ALTGRAD_ROW_MATRIX_ROWS = 7, // shape of the whole: `batch` matrices, row-major
  ALTGRAD_ROW_MATRIX_COLUMNS = 8,
  ALTGRAD_ROW_BATCH = 9,
  ALTGRAD_ROW_ROWS = 10,  // rows that its tensor has here, of all matrices,
  ALTGRAD_ROW_LENGTH = 11 // and elements of each: one row where the slice cuts one
};

typedef struct altgrad_chunk {
  int64_t row;
  int64_t first; // first element within the tensor, a multiple of ALTGRAD_CHUNK
} altgrad_chunk;

// The arguments of every kernel, in one list: the compiler derives its numbering from it
// and the runtime its struct. `groups` and `scalars` hold pointers to values. Spills
// are aligned to 64 bytes. The memory behind each pointer is on the device that
// runs the kernel. A word of a workspace holds an f64, i64, f32 or i1 in its
// low bytes; a word of `chunk_words` is 32 bits wide.
#define ALTGRAD_ARGS(POINTER, COUNT)                                           \
  POINTER(const uint64_t *, rows, Rows)        /* [nrows][row_words] */        \
  POINTER(const uint64_t *, inputs, Inputs)    /* [nrows][inputs], moving */   \
  POINTER(const altgrad_chunk *, chunks, Chunks) /* [nchunks] */               \
  POINTER(const uint64_t *, groups, Groups)    /* [ngroups][group_scalars] */  \
  POINTER(const uint64_t *, scalars, Scalars)  /* [step_scalars] */            \
  POINTER(const int64_t *, sets, Sets) /* first row of each, and the end */    \
  POINTER(uint64_t *, step_words, StepWords)   /* [step_words] */              \
  POINTER(uint64_t *, row_words, RowWords)     /* [nrows][workspace's] */      \
  POINTER(uint32_t *, chunk_words, ChunkWords) /* [chunk_words][nchunks] */    \
  POINTER(float *, spills, Spills) /* [spills][nchunks * ALTGRAD_CHUNK] */     \
  POINTER(uint32_t *, finished, Finished) /* blocks; see below */              \
  COUNT(nrows, RowCount)                                                       \
  COUNT(nchunks, ChunkCount)

typedef struct altgrad_args {
#define ALTGRAD_POINTER(type, name, Name) type name;
#define ALTGRAD_COUNT(name, Name) int64_t name;
  ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT)
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
} altgrad_args;

// A host kernel works on the items [begin, end) of its phase's domain: "chunks" (nchunks
// items), "rows" (nrows items) or "once" (one item). All of them are of the phase's set.
typedef void (*altgrad_host_kernel)(const altgrad_args *args, int64_t begin,
                                    int64_t end);

// The parameters of a CUDA kernel are the members of altgrad_args, then begin and end,
// 8 bytes each. The grid covers the items with its own size as stride; a block of
// ALTGRAD_BLOCK_THREADS threads does `per_block` items at a time.
//
// If `finished` is not NULL, the kernel counts its blocks there, from 0 to their number
// and back to 0. The last block does all items of the phases that its own phase finishes.
// The count belongs to a plan and to one launch at a time. It must be 0 before the first
// launch. A launch that is refused does not change it, and after a kernel that breaks
// off the context can launch nothing more.
//
// If a module of CUDA code has a global variable ALTGRAD_KERNELS_WAIT, every kernel but
// that of the first phase keeps this promise: every thread waits (griddepcontrol.wait)
// until the launch before has ended, before it exits, stores, or loads anything but
// rows, inputs, chunks and sets. Such kernels may be launched while the launch before in the
// same run goes on. The first launch of a run may not.
#define ALTGRAD_KERNELS_WAIT "altgrad_kernels_wait"

// In front of the digest of a bundle: 16 characters without the NUL.
#define ALTGRAD_BUNDLE_END "altgrad sha256 1"

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_BUNDLE_H
