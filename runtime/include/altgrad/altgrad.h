// altgrad's runtime: load a bundle, bind tensors to it by name, run it.
// runtime/Guide.md has a complete program.
//
// Most functions return a status; ALTGRAD_OK is 0. After a failure,
// altgrad_last_error() has a sentence about it, for each thread. No function throws
// or aborts. The library prints nothing but warnings about damaged bundles on disk, on
// stderr and once for each kind. Loading it starts no thread and opens no driver.
//
// Environment: ALTGRAD_OPT (path of the compiler), ALTGRAD_CACHE_DIR (default
// ~/.cache/altgrad), ALTGRAD_CACHE_MAXSIZE (in bytes, default 512 MiB),
// ALTGRAD_COMPILE_TIMEOUT (in seconds, default 120), TMPDIR.
//
// Handles have no locks: use each handle in one thread at a time.
#ifndef ALTGRAD_H
#define ALTGRAD_H

#include "altgrad/bundle.h"
#include "altgrad/gemm.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALTGRAD_API __attribute__((visibility("default")))

typedef int32_t altgrad_status;
enum {
  ALTGRAD_OK = 0,
  ALTGRAD_INVALID = 1,     // an argument is wrong
  ALTGRAD_NOT_FOUND = 2,   // there is no such file, name, target or compiler
  ALTGRAD_BROKEN = 3,      // the file is not a bundle, or one of another version
  ALTGRAD_UNAVAILABLE = 4, // there is no CUDA driver, no GPU, or no suitable CPU
  ALTGRAD_COMPILE = 5,     // the compiler refused; altgrad_last_error() has its message
  ALTGRAD_SYSTEM = 6,      // the operating system refused
  ALTGRAD_CUDA = 7,        // the CUDA driver refused
  ALTGRAD_INTERRUPTED = 8  // the function of altgrad_set_interrupt ended it
};

typedef struct altgrad_bundle altgrad_bundle;
typedef struct altgrad_plan altgrad_plan;

// The message of this thread's last failure; "" if there was none. It is valid until
// the thread's next failure.
ALTGRAD_API const char *altgrad_last_error(void);
// The version as "altgrad 0.1.0, ABI 5".
ALTGRAD_API const char *altgrad_version(void);

//===-- Bundles --------------------------------------------------------------//

// Loads a bundle from a file. The file is read once and opened from memory. One whose bytes have not the digest at
// their end, as the compiler writes it, is ALTGRAD_BROKEN, before the system's loader sees it. The digest finds damage
// and no intention: a bundle is code, and opening one runs it.
ALTGRAD_API altgrad_status altgrad_load(const char *path, altgrad_bundle **out);

// Compiles a step in a child process, or takes the result from the cache.
//
// `spec` is MLIR text of `size` bytes; it may be NULL if the options name a rule.
// `options` are options of altgrad-opt, one on each line: "--rule=adamw\n--clip".
// `compiler` is the path of altgrad-opt. If it is NULL, the compiler is $ALTGRAD_OPT, or
// altgrad-opt next to this library, in ../bin, or on PATH.
//
// A newline ends an option wherever it stands; other control characters are refused.
// If you put text of others into an option, refuse control characters in it.
//
// Without `spec`, a request for stock rules is first looked up among the bundles that
// were built with this library (../bundles). Such a request has for each set
// "--set=rule=NAME{options} param=F grad=F states=param step=f32", beside
// "--target=x86-64-v3,x86-64-v4", "--clip", "--scaler" and "--exchange" where they apply.
// It is found in whatever order the words, the options and the flags stand.
ALTGRAD_API altgrad_status altgrad_compile(const char *spec, uint64_t size, const char *options, const char *compiler,
                                           altgrad_bundle **out);

// While a compiler runs, altgrad_compile calls `stop` every few milliseconds, on its own
// thread. Where that gives other than 0, the compiler is ended, nothing of it is left,
// and altgrad_compile fails with ALTGRAD_INTERRUPTED. It holds for the calling thread;
// NULL is nobody.
ALTGRAD_API void altgrad_set_interrupt(int32_t (*stop)(void));

// The manifest, which bundle.h describes. It is valid as long as the bundle.
ALTGRAD_API const char *altgrad_manifest(const altgrad_bundle *bundle);

// The next structs hold what the manifest says, so that no one needs to parse it. Set
// `size` to the size of the struct before the call; no byte beyond that is written.
// Strings are valid as long as the bundle. An index that is out of range gives
// ALTGRAD_INVALID. bundle.h explains the fields.
enum { ALTGRAD_IN, ALTGRAD_OUT, ALTGRAD_INOUT };                                      // access
enum { ALTGRAD_PER_STEP, ALTGRAD_PER_GROUP, ALTGRAD_PER_TENSOR, ALTGRAD_PER_UNIT };   // scope
enum { ALTGRAD_SWEEP, ALTGRAD_FOLD, ALTGRAD_TOTAL, ALTGRAD_SCALARS, ALTGRAD_MATRIX }; // kind
enum { ALTGRAD_UNPACKED, ALTGRAD_EVEN_LOW, ALTGRAD_EVEN_HIGH };                       // even
enum { ALTGRAD_ADD, ALTGRAD_SUMSQ, ALTGRAD_MAX, ALTGRAD_AND };                        // reduction
enum { ALTGRAD_F64, ALTGRAD_I64, ALTGRAD_F32, ALTGRAD_I32, ALTGRAD_I1 };              // type

// Where a tensor has fewer elements than this, the front ends for Python and LibTorch keep a
// state with scales of blocks in f32, unless its word of storage says min_size.
enum { ALTGRAD_BLOCKED_NUMEL = 4096 };

typedef struct altgrad_stream_info {
  uint64_t size;
  const char *name, *key, *format;
  int32_t role; // enum altgrad_role
  int32_t access;
  int32_t set;
  int32_t bits;     // of one stored value; two values of 4 bits share a byte
  int32_t block;    // elements that share one value
  int32_t even;     // with 4 bits: which half of a byte has the even element's value
  int32_t columns;  // of a block that goes over rows: 1 or 128; of other blocks: 0
  int32_t per_column; // 1: a tensor has one value for each column of its matrix
  int32_t square;     // 1: a tensor has a square of rows x rows; 2: of columns x columns; else 0
} altgrad_stream_info;

typedef struct altgrad_scalar_info {
  uint64_t size;
  const char *name, *key;
  int32_t role, access, type, scope;
  int32_t set;   // -1: it belongs to every set
  int32_t bytes; // of one value
  int32_t has_default;
  double value; // the default
} altgrad_scalar_info;

typedef struct altgrad_phase_info {
  uint64_t size;
  const char *name;
  int32_t kind;
  int32_t set;          // -1: all sets
  double read, written; // bytes per element
  int32_t once;         // 1: of the step itself, not of tensors
  int32_t reserved;     // 0
} altgrad_phase_info;

typedef struct altgrad_exchange_info {
  uint64_t size;
  int64_t phase; // the exchange takes place before this phase
  int64_t words;
} altgrad_exchange_info;

typedef struct altgrad_exchange_word {
  uint64_t size;
  uint64_t offset;   // in bytes from the beginning of the workspace
  int32_t reduction; // the word is an i32 for ALTGRAD_AND and an f32 for the others
  const char *sum;   // which of a rule's sums over the step it is of; "": of the step's norm or verdict
} altgrad_exchange_word;

// A warning about a format, which holds while a hyper-parameter lies between two numbers.
typedef struct altgrad_warning_info {
  uint64_t size;
  const char *stream;  // key of the parameter or state
  const char *hyper;   // key of the hyper-parameter; "": the warning always holds
  const char *text;    // a sentence
  double above, below; // above < hyper < below
  int32_t set;
} altgrad_warning_info;

// A sum over each tensor of a set that its other slices may join; see altgrad_partial_at.
typedef struct altgrad_partial_info {
  uint64_t size;
  int64_t phase, set;
  int32_t reduction;
} altgrad_partial_info;

// The number of sets. It is 0 for a step of scalars only, to which no tensors are bound.
ALTGRAD_API int64_t altgrad_set_count(const altgrad_bundle *bundle);
// 1 if the step reduces over units of tensors that the caller gives, else 0. Where it multiplies the matrices of a
// stack, these are the units, whatever the caller gives.
ALTGRAD_API int32_t altgrad_has_units(const altgrad_bundle *bundle);
// If a tensor of the set has several units, the length of each must be a multiple of this
// number: the longest block of neighbours that share a value. 0: the set has no units that the caller gives.
ALTGRAD_API int64_t altgrad_unit_multiple(const altgrad_bundle *bundle, int64_t set);
// If a tensor of the set has several rows, the length of each must be a multiple of this
// number, so that tiles cut no block. It is 1 if rows may have any length.
ALTGRAD_API int64_t altgrad_row_multiple(const altgrad_bundle *bundle, int64_t set);
// 1 if what a step does to an element of the set depends on where it is in its tensor: on its index, a random
// number, or a block, a unit or a matrix of the rule. Memory is then in the order of the index, row by row; a
// tensor with another order, such as a transposed one, is given as a copy. 0: elements may have any order, the
// same in all lists.
ALTGRAD_API int32_t altgrad_has_places(const altgrad_bundle *bundle, int64_t set);
// 1 if each tensor of the set has to be a matrix, because the step multiplies it, 2 if it may be a stack of matrices,
// too, 3 if it is one with no fewer rows than columns. 0: it may be anything.
ALTGRAD_API int32_t altgrad_multiplies(const altgrad_bundle *bundle, int64_t set);
// Whether the step has values per row and per column of each tensor of the set, which counts as one matrix and is no
// slice.
ALTGRAD_API int32_t altgrad_has_columns(const altgrad_bundle *bundle, int64_t set);
// The number of streams (lists of tensors), scalars, phases and exchanges, and about each one.
ALTGRAD_API int64_t altgrad_stream_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_stream_at(const altgrad_bundle *bundle, int64_t index, altgrad_stream_info *out);
ALTGRAD_API int64_t altgrad_scalar_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_scalar_at(const altgrad_bundle *bundle, int64_t index, altgrad_scalar_info *out);
ALTGRAD_API int64_t altgrad_phase_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_phase_at(const altgrad_bundle *bundle, int64_t index, altgrad_phase_info *out);
ALTGRAD_API int64_t altgrad_exchange_count(const altgrad_bundle *bundle);
ALTGRAD_API int64_t altgrad_partial_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_partial_info_at(const altgrad_bundle *bundle, int64_t index,
                                                   altgrad_partial_info *out);
ALTGRAD_API altgrad_status altgrad_exchange_at(const altgrad_bundle *bundle, int64_t index, altgrad_exchange_info *out);
ALTGRAD_API altgrad_status altgrad_exchange_word_at(const altgrad_bundle *bundle, int64_t exchange, int64_t word,
                                                    altgrad_exchange_word *out);

// The number of warnings, and about each one.
ALTGRAD_API int64_t altgrad_warning_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_warning_at(const altgrad_bundle *bundle, int64_t index, altgrad_warning_info *out);

// Frees a bundle. Plans keep what they need of it, so it may be freed before them.
ALTGRAD_API void altgrad_bundle_free(altgrad_bundle *bundle);

//===-- Plans ----------------------------------------------------------------//

// Makes a plan: a bundle that is bound to tensors on one device. `device` is "cpu" (the CPU's best
// level), "cpu:v3", "cpu:v4", "cuda" (the device of the current context) or "cuda:N".
ALTGRAD_API altgrad_status altgrad_plan_create(altgrad_bundle *bundle, const char *device, altgrad_plan **out);
// Frees a plan. Graphs that have captured its runs may still be replayed (altgrad_set_owner).
ALTGRAD_API void altgrad_plan_free(altgrad_plan *plan);

// One tensor of a step: the elements [offset, offset + numel) of a whole. The whole is `batch`
// matrices of `rows` by `columns` in row-major order, so whole = batch * rows * columns. If
// rows and columns are 0, it is one row of all its elements. Usually the tensor is the whole.
//
// The elements of a slice get the values that they get in the whole, random ones too, except from
// reductions over the tensor: these are over the slice. So a slice must be cut between the
// blocks that share a value and between units, and where blocks go over rows, behind
// 32 or 128 whole rows. Slices with the same tag are of the same whole and must not overlap.
//
// A list of scales has those of the slice's blocks. If it has r rows, of all matrices, there are
// ceil(r / 32) * columns scales for blocks of columns, and for squares
// ceil(r / 128) * ceil(columns / 128), row by row.
typedef struct altgrad_tensor {
  uint64_t size;  // sizeof(altgrad_tensor), the distance to the next one
  int64_t numel;  // number of elements here
  int64_t offset; // index in the whole of the first one
  int64_t rows, columns;
  int64_t group; // in [0, ngroups)
  int64_t set;   // at least that of the tensor before
  int64_t tag;   // key of its random bits, below 2^24; negative: its index
  // What follows may be 0, or be missing from a struct of a smaller size.
  int64_t units;  // units of the whole: equal runs of neighbours, over each of which a step
                  // with units reduces; 0: rows
  int64_t whole;  // number of elements of the whole; 0: numel
  int64_t absent; // not 0: takes no part until altgrad_bind_present says otherwise
} altgrad_tensor;

// Declares the tensors, set by set, and forgets all pointers that were bound before. A
// set, or the whole step, may have no tensors; its phases that run once still run.
ALTGRAD_API altgrad_status altgrad_bind_tensors(altgrad_plan *plan, const altgrad_tensor *tensors, int64_t count,
                                                int64_t ngroups);

// Binds a stream to memory on the plan's device: `count` pointers, one for each tensor of
// the stream's set, in order. A pointer to a tensor without elements is ignored and may be
// NULL. The function may be called before every run; moving "in" streams costs least.
//
// A step may commit some tensors always and others on a condition. It may then read an
// "out" stream, to write the old bytes back.
//
// Tensors are updated at the same time, so memory that a run writes must not overlap any
// other memory that it reads or writes. The runtime does not check this. The
// optimizers for Python and LibTorch check parameters and states when they bind them;
// those for LibTorch also check a gradient whenever it has moved.
ALTGRAD_API altgrad_status altgrad_bind_stream(altgrad_plan *plan, const char *name, void *const *pointers,
                                               int64_t count);

// Says which tensors take part in the next runs: one byte for each declared tensor, 0 where it is
// absent. NULL means all of them. A run neither reads nor writes an absent tensor, and its results
// are those of a plan without that tensor, bit for bit. The "in" streams of an absent tensor may be
// bound to NULL, but must be bound before the tensor takes part again. A changed list costs a
// copy of the rows and chunks of the tensors that take part. altgrad_bind_tensors makes all of
// them take part but those that it declares absent.
ALTGRAD_API altgrad_status altgrad_bind_present(altgrad_plan *plan, const uint8_t *present, int64_t count);

// Moves one pointer of an "in" stream that is bound. `tensor` counts within the stream's set.
ALTGRAD_API altgrad_status altgrad_bind_tensor(altgrad_plan *plan, const char *name, int64_t tensor, void *pointer);

// Binds a scalar to the memory that holds it, on the plan's device. The number of pointers
// depends on the scalar's scope: 1 for "step", ngroups for "group", and the number of tensors of
// its set for "tensor" (of all sets if it has no set) and "unit", where each points to the values of its
// tensor's units. A pointer for a group that has no tensor of the scalar's set is ignored.
ALTGRAD_API altgrad_status altgrad_bind_scalar(altgrad_plan *plan, const char *name, void *const *pointers,
                                               int64_t count);

// Declares `bytes` of host memory as values that kernels of a CUDA plan read. altgrad_run
// sends the memory's content to the device if it differs from the last run: up to 4080 bytes as a
// parameter of a launch, unless tables changed as well. Pointers of "in"
// scalars with the scopes step and group may then point into this memory. It must stay valid as
// long as the plan. A plan for the CPU reads it in place. A captured graph keeps the
// values that it was captured with.
ALTGRAD_API altgrad_status altgrad_mirror(altgrad_plan *plan, const void *values, uint64_t bytes);

// The bytes of workspace that a run needs with the tensors declared now: the caller's memory on the
// plan's device, aligned to 64 bytes. Its content must be kept between the phases of a run.
ALTGRAD_API altgrad_status altgrad_workspace(altgrad_plan *plan, uint64_t *bytes);

// A function that runs body(begin, end, context) over parts of [begin, end) and returns 0 when
// all are done. Another result makes the run fail with ALTGRAD_SYSTEM: nobody knows which
// parts were done. It has the signature of torch_parallel_for in libtorch_cpu (torch 2.11).
typedef int32_t (*altgrad_parallel_for)(int64_t begin, int64_t end, int64_t grain,
                                        void (*body)(int64_t, int64_t, void *), void *context);

// Makes a plan for the CPU run its phases by this function instead of the runtime's own
// threads. NULL: own threads, which start with the first run that needs them.
ALTGRAD_API altgrad_status altgrad_set_parallel_for(altgrad_plan *plan, altgrad_parallel_for run);
// Sets the number of own threads of a plan for the CPU; 0: one for each CPU that the process may use.
ALTGRAD_API altgrad_status altgrad_set_threads(altgrad_plan *plan, int32_t n);

// Makes a plan multiply matrices by this function, in the thread that calls altgrad_run.
// NULL: by a plain kernel of altgrad's, on the threads of the plan. A plan for a GPU then takes cuBLASLt,
// and its runs of such phases are ALTGRAD_UNAVAILABLE without that. If `plan` is NULL, this is for all plans
// without a function of their own, from their next run on.
ALTGRAD_API altgrad_status altgrad_set_gemm(altgrad_plan *plan, altgrad_multiply multiply, void *context);

// Gives all plans another function for symmetric products of 16-bit matrices on a GPU. It is measured beside the others
// where ALTGRAD_CUDA_PRODUCTS is auto, under this name, which has its version, and first called outside of a capture.
// A result other than 0 and an exception leave a product to the others. NULL: none.
ALTGRAD_API altgrad_status altgrad_set_symmetric_gemm(altgrad_multiply multiply, void *context, const char *name);

// Makes a plan factorize squares by this function, in the thread that calls altgrad_run. Without one, runs of such
// phases are ALTGRAD_UNAVAILABLE. If `plan` is NULL, this is for all plans without a function of their own.
ALTGRAD_API altgrad_status altgrad_set_factorize(altgrad_plan *plan, altgrad_factorize factorize, void *context);

// Says who keeps the caller's memory for captured graphs: tensors, workspace and values. A run on a
// stream that is captured calls hold(context) in the caller's thread. The result must not be
// NULL. release(result) is called once, when the graph and everything instantiated from it are
// destroyed, from a later call about any CUDA plan, in any thread. The memory must stay until
// then, even when the plan is freed. Without an owner the caller has to see to that.
ALTGRAD_API altgrad_status altgrad_set_owner(altgrad_plan *plan, void *(*hold)(void *context),
                                             void (*release)(void *held), void *context);

// Says who gives the device memory for tables of CUDA plans, in the whole process, from now on. NULL
// for both: the driver (cuMemAlloc), as at first. An allocator that frees what it holds before it
// tells that there is none, such as torch's, so serves plans on a full card, too.
//
// allocate(device, bytes, stream, context) returns memory on cuda:`device`, aligned to 256 bytes, or
// NULL. It is called while tensors or values are declared, and in a run that is captured, in the
// caller's thread. `stream` is a CUstream of the runtime's: an allocator that hands memory on in the
// order of a stream must do it in that of this one. release(memory, context) is called
// once nothing on the device needs the memory, from a later call about any CUDA plan, in any
// thread. Both may be called by several threads at the same time. Memory goes back to whom it is from.
ALTGRAD_API altgrad_status altgrad_set_cuda_memory(void *(*allocate)(int32_t device, uint64_t bytes, void *stream,
                                                                     void *context),
                                                   void (*release)(void *memory, void *context), void *context);

// Runs the phases [first, last); last < 0 means to the end. If a stream or scalar is not bound,
// the result is ALTGRAD_INVALID and nothing runs.
//
// A plan for the CPU returns when the phases are done, and ignores `stream`. A CUDA plan
// launches them on `stream`, a CUstream, and returns; it reads nothing back. It waits only if
// tables have changed and the memory through which they travel is still in
// use by earlier runs: there is room for 4 uploads of all tables, and for 32 uploads.
//
// A run allocates nothing, except on a stream that is captured: a graph gets tables of its own,
// for whose upload the run waits. They live as long as the graph, so the plan may be freed
// before it. Runs of one plan on several streams, and replays of its graphs, run one after
// the other.
ALTGRAD_API altgrad_status altgrad_run(altgrad_plan *plan, void *workspace, uint64_t bytes, int64_t first, int64_t last,
                                       void *stream);

// Runs some phases for the tensors [first_tensor, last_tensor) only, counted over all sets, absent
// ones too: shards and buckets. Done for every tensor once, in any order, it is as altgrad_run. A
// phase of the step itself (altgrad_phase_info's `once`) is refused: altgrad_run runs it in between.
ALTGRAD_API altgrad_status altgrad_run_tensors(altgrad_plan *plan, void *workspace, uint64_t bytes, int64_t first_phase,
                                               int64_t last_phase, int64_t first_tensor, int64_t last_tensor,
                                               void *stream);

// Runs the sweep of one phase for the chunks [first, last) only, with a plan for the CPU. Chunks
// are counted over all tensors that take part; a tensor has ceil(numel / ALTGRAD_CHUNK). A
// sweep that writes no stream can so be done before the run, as soon as the results of
// earlier phases that it needs are there.
ALTGRAD_API altgrad_status altgrad_run_chunks(altgrad_plan *plan, void *workspace, uint64_t bytes, int64_t phase,
                                              int64_t first, int64_t last);

// Asks the system for huge pages for host memory that has not been written yet, of 4 MiB or more:
// the first write takes a third of the time. It may change errno, and never content.
ALTGRAD_API void altgrad_prefer_huge_pages(void *memory, uint64_t bytes);

// Sets *capturing to 1 if work on `stream`, a CUstream of the current context, is captured, else 0.
ALTGRAD_API altgrad_status altgrad_capturing(void *stream, int32_t *capturing);

// Says how a sum over a tensor that is a slice is joined by those of other slices before `phase`
// runs, and at which byte of the workspace it is: an i32 for ALTGRAD_AND, else an f32. There are
// altgrad_partial_count sums, none without --exchange. If the tensor is absent, or not of the sum's
// set, the result is ALTGRAD_INVALID.
ALTGRAD_API altgrad_status altgrad_partial_at(const altgrad_plan *plan, int64_t partial, int64_t tensor, int64_t *phase,
                                              int32_t *reduction, uint64_t *offset);

// Says where the partial sums of chunks are in the workspace: words of 32 bits as
// [words][chunks] from byte `offset` on. A pointer that is NULL is skipped.
ALTGRAD_API altgrad_status altgrad_partials(const altgrad_plan *plan, uint64_t *offset, int64_t *words,
                                            int64_t *chunks);

#ifdef __cplusplus
}
#endif

#include "altgrad/codes.h"

#endif // ALTGRAD_H
