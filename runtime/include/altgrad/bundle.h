// What a bundle is: the only knowledge that the compiler and the runtime share
// besides format.h.
//
// A bundle is an x86-64 shared object. It exports
//
//   const char altgrad_manifest[];        JSON, NUL-terminated
//   const char altgrad_ptx_<target>[];    PTX text, NUL-terminated (sm_80, ...)
//   void <phase symbol>_<level>(...)      one host kernel per phase and level
//                                         ("v3", "v4": x86-64-v3, x86-64-v4)
//   int64_t altgrad_prefetch;             bytes a sweep prefetches ahead on a
//                                         host; 0 until the runtime sets it
//
// Manifest, all keys always present:
//
//   {"altgrad": 1, "step": "train", "producer": "...",
//    "host": ["v3", "v4"], "ptx": ["sm_80", "sm_90"],
//    "sets": 1,             kinds of rows: lists of other tensors are another set
//    "row_words": 12,       words of a descriptor row, header included
//    "inputs": 1,           moving pointers of a row (streams of access "in")
//    "streams": [{"name": "grads", "role": "grad", "access": "in",
//                 "format": "bf16", "bytes": 2, "slot": 0, "set": 0}, ...],
//    "scalars": [{"name": "lr", "access": "in", "type": "f64",
//                 "scope": "group", "slot": 0, "role": "hyper",
//                 "default": 0.001}, ...],
//    "group_scalars": 6, "step_scalars": 2,
//    "workspace": {"step_words": 4, "row_words": 9, "chunk_words": 1,
//                  "spills": 0},
//    "phases": [{"name": "update", "symbol": "altgrad_train_update",
//                "domain": "chunks", "set": 0, "per_block": 8,
//                "read": 16, "written": 12}, ...]}
//
// "access": in, out or inout. A stream's "slot" counts words of `inputs` for
// access "in", and words after the row's header otherwise. A scalar's "scope"
// is step, group or tensor; its "slot" counts pointers of `scalars`, of a
// group's part of `groups`, or words after the row's header (shared with the
// streams' numbering). "default" is null where the rule gives none.
// Every row is of one set, rows come set by set, and a stream has tensors in the
// rows of its "set" only. Scalars have their place in every row and group. The "set" of a
// phase says whose chunks or rows it walks; null: all.
// "read"/"written": bytes per element that the phase moves (sweeps only).
#ifndef ALTGRAD_BUNDLE_H
#define ALTGRAD_BUNDLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ALTGRAD_CHUNK = 4096,      // elements of one tensor in a chunk
  ALTGRAD_LANES = 256,       // partial sums of a chunk; lane = element mod 256
  ALTGRAD_ROW_HEADER = 8,    // words of a row before its pointers
  ALTGRAD_BLOCK_THREADS = 256 // threads of a CUDA block, in every kernel
};

// The header of a descriptor row. All words are 64 bits wide.
enum altgrad_row_word {
  ALTGRAD_ROW_NUMEL = 0,       // elements of this tensor (of this shard)
  ALTGRAD_ROW_OFFSET = 1,      // global index of its first element
  ALTGRAD_ROW_TAG = 2,         // key of its random bits and blocks
  ALTGRAD_ROW_GROUP = 3,       // row of `groups`
  ALTGRAD_ROW_FIRST_CHUNK = 4, // index of its first chunk
  ALTGRAD_ROW_CHUNKS = 5,      // number of its chunks, 0 for an empty tensor
  ALTGRAD_ROW_SET = 6,         // never less than the row before
  ALTGRAD_ROW_RESERVED = 7
};

typedef struct altgrad_chunk {
  int64_t row;
  int64_t first; // first element within the tensor, a multiple of ALTGRAD_CHUNK
} altgrad_chunk;

// What every kernel reads. The memory behind each pointer is on the device that
// runs the kernel. A word of a workspace holds an f64, i64, f32 or i1 in its
// low bytes; a word of `chunk_words` is 32 bits wide.
typedef struct altgrad_args {
  const uint64_t *rows;        // [nrows][row_words]
  const uint64_t *inputs;      // [nrows][inputs] pointers that move
  const altgrad_chunk *chunks; // [nchunks]
  const uint64_t *groups;      // [ngroups][group_scalars] pointers to values
  const uint64_t *scalars;     // [step_scalars] pointers to values
  uint64_t *step_words;        // [step_words]
  uint64_t *row_words;         // [nrows][row_words of the workspace]
  uint32_t *chunk_words;       // [chunk_words][nchunks]
  float *spills;               // [spills][nchunks * ALTGRAD_CHUNK], 64-byte aligned
  int64_t nrows;
  int64_t nchunks;
} altgrad_args;

// A host kernel does the items [begin, end) of its phase's domain: "chunks"
// (nchunks items), "rows" (nrows items) or "once" (one item); never one of
// another set than the phase's.
typedef void (*altgrad_host_kernel)(const altgrad_args *args, int64_t begin,
                                    int64_t end);

// A CUDA kernel has the eleven members of altgrad_args, begin and end as its
// parameters, in this order, each 8 bytes. The grid walks the items with its own
// size as stride; a block of ALTGRAD_BLOCK_THREADS threads does `per_block` at a
// time.

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_BUNDLE_H
