// altgrad's runtime: loads a bundle, binds tensors to it by name, runs it.
//
// Every function returns a status; ALTGRAD_OK is 0. After a failure
// altgrad_last_error() has the words, per thread. No function throws or aborts;
// nothing is printed but one warning of each kind about bundles on disk, on
// stderr. Loading this library starts no thread and opens no driver.
//
// Environment: ALTGRAD_OPT (the compiler), ALTGRAD_CACHE_DIR,
// ALTGRAD_CACHE_MAXSIZE (bytes, 512 MiB), ALTGRAD_COMPILE_TIMEOUT (seconds,
// 120), TMPDIR. Handles are not locked: one thread at a time per handle.
#ifndef ALTGRAD_H
#define ALTGRAD_H

#include "altgrad/bundle.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALTGRAD_API __attribute__((visibility("default")))

typedef int32_t altgrad_status;
enum {
  ALTGRAD_OK = 0,
  ALTGRAD_INVALID = 1,     // an argument is wrong
  ALTGRAD_NOT_FOUND = 2,   // a file, name, target or compiler is not there
  ALTGRAD_BROKEN = 3,      // a bundle that is not one, or of another version
  ALTGRAD_UNAVAILABLE = 4, // no CUDA driver, no GPU, no suitable CPU
  ALTGRAD_COMPILE = 5,     // the compiler refused; the words are its own
  ALTGRAD_SYSTEM = 6,      // the operating system refused
  ALTGRAD_CUDA = 7         // the CUDA driver refused
};

typedef struct altgrad_bundle altgrad_bundle;
typedef struct altgrad_plan altgrad_plan;

// The words of this thread's last failure; "" if there was none.
ALTGRAD_API const char *altgrad_last_error(void);
// "altgrad 0.1.0, ABI 4"
ALTGRAD_API const char *altgrad_version(void);

//===-- Bundles --------------------------------------------------------------//

// Loads a bundle from a file: read once, verified, opened from memory.
ALTGRAD_API altgrad_status altgrad_load(const char *path, altgrad_bundle **out);

// Compiles `spec` (MLIR text, `size` bytes; may be NULL when the options name a
// rule) with the options of altgrad-opt, one per line ("--rule=adamw\n--clip"),
// in a child process, or takes the result from the cache. `compiler` is the
// path of altgrad-opt; NULL: $ALTGRAD_OPT, beside this library, on PATH.
//
// A newline ends an option wherever it stands, and other control characters are
// refused: whoever puts foreign words into an option refuses both in them.
//
// Without `spec`, a request whose rules are stock ones is looked up first among
// the bundles that were built with this library (../bundles), word for word.
// They are asked for as "--set=rule=NAME{options} param=F grad=F states=param
// step=f32" for each set, options and lines sorted, then
// "--target=x86-64-v3,x86-64-v4", "--clip",
// "--scaler", "--exchange", as far as they apply.
ALTGRAD_API altgrad_status altgrad_compile(const char *spec, uint64_t size,
                                           const char *options,
                                           const char *compiler,
                                           altgrad_bundle **out);

// The manifest described in bundle.h, alive as long as the bundle.
ALTGRAD_API const char *altgrad_manifest(const altgrad_bundle *bundle);

// What a manifest says, for front ends: nobody has to parse it. `size` is the
// size of the struct that the caller knows and is set by the caller; more than
// that is not written. Strings live as long as the bundle. An index out of
// range is ALTGRAD_INVALID. Meanings are those of bundle.h.
enum { ALTGRAD_IN, ALTGRAD_OUT, ALTGRAD_INOUT };                      // access
enum { ALTGRAD_PER_STEP, ALTGRAD_PER_GROUP, ALTGRAD_PER_TENSOR };     // scope
enum { ALTGRAD_SWEEP, ALTGRAD_FOLD, ALTGRAD_TOTAL, ALTGRAD_SCALARS }; // kind
enum { ALTGRAD_UNPACKED, ALTGRAD_EVEN_LOW, ALTGRAD_EVEN_HIGH };       // even
enum { ALTGRAD_ADD, ALTGRAD_SUMSQ, ALTGRAD_MAX, ALTGRAD_AND }; // reduction
enum { ALTGRAD_F64, ALTGRAD_I64, ALTGRAD_F32, ALTGRAD_I32, ALTGRAD_I1 }; // type

// Front ends keep a state whose blocks have a scale as f32 where a tensor has fewer
// elements: there a scale would save nothing.
enum { ALTGRAD_BLOCKED_NUMEL = 4096 };

typedef struct altgrad_stream_info {
  uint64_t size;
  const char *name, *key, *format;
  int32_t role; // enum altgrad_role
  int32_t access;
  int32_t set;
  int32_t bits;  // of one stored value; of 4 two share a byte
  int32_t block; // elements that share one
  int32_t even;  // half of a byte of 4 bits each that has the even element's
  int32_t columns; // that blocks over rows span: 1, 128, or 0 where they have none
  int32_t reserved; // 0
} altgrad_stream_info;

typedef struct altgrad_scalar_info {
  uint64_t size;
  const char *name, *key;
  int32_t role, access, type, scope;
  int32_t set;   // -1: of every set
  int32_t bytes; // of one value
  int32_t has_default;
  double value; // the default
} altgrad_scalar_info;

typedef struct altgrad_phase_info {
  uint64_t size;
  const char *name;
  int32_t kind;
  int32_t set; // -1: all
  double read, written;
} altgrad_phase_info;

typedef struct altgrad_exchange_info {
  uint64_t size;
  int64_t phase; // the exchange takes place before it
  int64_t words;
} altgrad_exchange_info;

typedef struct altgrad_exchange_word {
  uint64_t size;
  uint64_t offset;   // bytes from the begin of the workspace
  int32_t reduction; // ALTGRAD_AND is over an i32, the others over an f32
} altgrad_exchange_word;

// What a set's formats lose where a hyper-parameter lies between two numbers.
typedef struct altgrad_warning_info {
  uint64_t size;
  const char *stream; // the key of the parameter or state that loses it
  const char *hyper;  // its key; "": whatever there is
  const char *text;
  double above, below;
  int32_t set;
} altgrad_warning_info;

// 0 for a step of scalars alone, for which no tensors are bound.
ALTGRAD_API int64_t altgrad_set_count(const altgrad_bundle *bundle);
// 1 where something is reduced over the units of tensors, 0 elsewhere.
ALTGRAD_API int32_t altgrad_has_units(const altgrad_bundle *bundle);
// Of how many elements each unit of a tensor of the set is a multiple, where it has
// several: the longest block of neighbours that share a number.
ALTGRAD_API int64_t altgrad_unit_multiple(const altgrad_bundle *bundle,
                                          int64_t set);
// Of how many elements each row of a tensor of the set is a multiple, where it has
// several: a block that tiles would cut otherwise. 1 where rows may have any length.
ALTGRAD_API int64_t altgrad_row_multiple(const altgrad_bundle *bundle,
                                         int64_t set);
ALTGRAD_API int64_t altgrad_stream_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_stream_at(const altgrad_bundle *bundle,
                                             int64_t index,
                                             altgrad_stream_info *out);
ALTGRAD_API int64_t altgrad_scalar_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_scalar_at(const altgrad_bundle *bundle,
                                             int64_t index,
                                             altgrad_scalar_info *out);
ALTGRAD_API int64_t altgrad_phase_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_phase_at(const altgrad_bundle *bundle,
                                            int64_t index,
                                            altgrad_phase_info *out);
ALTGRAD_API int64_t altgrad_exchange_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_exchange_at(const altgrad_bundle *bundle,
                                               int64_t index,
                                               altgrad_exchange_info *out);
ALTGRAD_API altgrad_status
altgrad_exchange_word_at(const altgrad_bundle *bundle, int64_t exchange,
                         int64_t word, altgrad_exchange_word *out);

ALTGRAD_API int64_t altgrad_warning_count(const altgrad_bundle *bundle);
ALTGRAD_API altgrad_status altgrad_warning_at(const altgrad_bundle *bundle,
                                              int64_t index,
                                              altgrad_warning_info *out);

// Bits of a code of the format that has this name, as in a stream's `format`; 0 if
// none has. Codes of 2 to 8 bits lie one in a byte, those of 9 to 16 in two.
ALTGRAD_API int32_t altgrad_format_bits(const char *name);
// Where a stream with blocks stores this format two codes to a byte, which half is
// the even element's: ALTGRAD_EVEN_LOW or ALTGRAD_EVEN_HIGH. ALTGRAD_UNPACKED where it
// does not, as of every format that has other than 4 bits.
ALTGRAD_API int32_t altgrad_format_even(const char *name);
// The codes of f32 numbers, as kernels round them to nearest; what is beyond the
// format becomes its largest number (`saturates` != 0), or an infinity or a NaN.
// Of formats of 2 to 16 bits; ALTGRAD_INVALID for others.
ALTGRAD_API altgrad_status altgrad_format_encode(const char *name,
                                                 int32_t saturates,
                                                 const float *numbers,
                                                 void *codes, int64_t count);
// The numbers that codes stand for.
ALTGRAD_API altgrad_status altgrad_format_decode(const char *name,
                                                 const void *codes,
                                                 float *numbers, int64_t count);

// What a short name for a format with scales says in full: of "mxfp8"
// "ocp.e4m3fn:32:ocp.e8m0", elements, block and scales; null if it is none.
ALTGRAD_API const char *altgrad_scaled_preset(const char *name);
// Of a format that is a code book the least scale of a block, by which elements are
// divided; 0 of all others, whose elements are multiplied by the scale's inverse.
ALTGRAD_API float altgrad_book_least_scale(const char *name);

// Plans keep what they need of a bundle: it may be freed before them.
ALTGRAD_API void altgrad_bundle_free(altgrad_bundle *bundle);

//===-- Plans ----------------------------------------------------------------//

// A plan is a bundle bound to tensors on one device: "cpu" (the best level this
// CPU has), "cpu:v3", "cpu:v4", "cuda" (the current context's device) or
// "cuda:N".
ALTGRAD_API altgrad_status altgrad_plan_create(altgrad_bundle *bundle,
                                               const char *device,
                                               altgrad_plan **out);
ALTGRAD_API void altgrad_plan_free(altgrad_plan *plan);

// One tensor of a step. Its elements are those of `batch` matrices of `rows` by
// `columns` in row-major order, numel = batch * rows * columns; rows and
// columns 0: one row of numel columns. A list of scales of columns has
// ceil(batch * rows / 32) * columns of them for a tensor, one of squares
// ceil(batch * rows / 128) * ceil(columns / 128), row by row.
typedef struct altgrad_tensor {
  uint64_t size; // sizeof(altgrad_tensor), the distance to the next one
  int64_t numel; // elements
  int64_t
      offset; // global index of its first element, a multiple of every block
  int64_t rows, columns;
  int64_t group; // in [0, ngroups)
  int64_t set;   // never less than the one before
  int64_t tag;   // key of its random bits, below 2^24; negative: its index
  int64_t units; // equal runs of neighbours, over each of which a step with units
                 // reduces; 0, or a struct without it: the rows of its matrices
} altgrad_tensor;

// Declares the tensors, set by set. Forgets all pointers bound before. A set,
// or the whole step, may have no tensors: what runs once per step still runs.
ALTGRAD_API altgrad_status altgrad_bind_tensors(altgrad_plan *plan,
                                                const altgrad_tensor *tensors,
                                                int64_t count, int64_t ngroups);

// Binds a stream: one pointer for each tensor of its set, in order (any, NULL
// included, where the tensor has no elements). May be called before every run;
// pointers of "in" streams are the cheap ones to move. A step that commits some
// tensors always and others on a condition may read an "out" stream to write
// its old bytes back. What a run writes may share no byte with anything else
// that it reads or writes: tensors are updated at the same time. Nobody looks
// for that here, where pointers of a million tensors may come every step; the
// optimizers do when they bind (_binding/layout.py, torch/tensors/Checks.cpp).
ALTGRAD_API altgrad_status altgrad_bind_stream(altgrad_plan *plan,
                                               const char *name,
                                               void *const *pointers,
                                               int64_t count);

// Moves the pointer of one tensor, counted within its set, of an "in" stream
// that is bound.
ALTGRAD_API altgrad_status altgrad_bind_tensor(altgrad_plan *plan,
                                               const char *name, int64_t tensor,
                                               void *pointer);

// Binds a scalar to the memory that holds it: 1 pointer (scope "step"), ngroups
// ("group"; any where the group has no tensor of the scalar's set), or one for
// each tensor of its set, of all sets where it has none ("tensor").
ALTGRAD_API altgrad_status altgrad_bind_scalar(altgrad_plan *plan,
                                               const char *name,
                                               void *const *pointers,
                                               int64_t count);

// Declares a block of the caller's memory whose values a CUDA plan's kernels
// are to find on the device: what lies there when altgrad_run is called is sent
// along where it differs from the last time. Pointers of "in" scalars per step
// or group may then lead into the block. It stays where it is as long as the
// plan; a plan of the CPU reads it in place. A captured graph keeps the values
// of its capture.
ALTGRAD_API altgrad_status altgrad_mirror(altgrad_plan *plan,
                                          const void *values, uint64_t bytes);

// Bytes of workspace a run needs for the rows bound now; 64-byte aligned memory
// on the plan's device, owned by the caller, with no content to keep between
// runs but kept between the phases of one.
ALTGRAD_API altgrad_status altgrad_workspace(altgrad_plan *plan,
                                             uint64_t *bytes);

// Runs body(begin, end, context) over parts of [begin, end) and returns when
// all are done: the signature of torch_parallel_for in libtorch_cpu (2.11).
typedef void (*altgrad_parallel_for)(int64_t begin, int64_t end, int64_t grain,
                                     void (*body)(int64_t, int64_t, void *),
                                     void *context);

// Runs host phases on this function instead of the runtime's own threads;
// NULL: own threads, started at the first run that needs them.
ALTGRAD_API altgrad_status altgrad_set_parallel_for(altgrad_plan *plan,
                                                    altgrad_parallel_for run);
// Own threads for host phases; 0: one per CPU this process may use.
ALTGRAD_API altgrad_status altgrad_set_threads(altgrad_plan *plan, int32_t n);

// Runs phases [first, last) (last < 0: to the end). `stream` is a CUstream for
// a CUDA plan, ignored otherwise. Reads nothing back, waits for nothing, and
// allocates nothing unless the stream is captured: a graph keeps tables of its
// own in the plan, which has to outlive it. Runs of a plan on several streams,
// and replays of its graphs, follow each other. An unbound name is
// ALTGRAD_INVALID and nothing runs.
ALTGRAD_API altgrad_status altgrad_run(altgrad_plan *plan, void *workspace,
                                       uint64_t bytes, int64_t first,
                                       int64_t last, void *stream);

// Runs a sweep over the chunks [first, last) alone, of those of its set, on the
// CPU. Chunks are counted over all tensors in their order; a tensor has one for
// each ALTGRAD_CHUNK elements that it begins. Their words in the workspace are
// then those of a run of that phase: so a sweep that writes no stream can come
// before its run, tensor by tensor, where what it needs of the phases before it
// is there already.
ALTGRAD_API altgrad_status altgrad_run_chunks(altgrad_plan *plan,
                                              void *workspace, uint64_t bytes,
                                              int64_t phase, int64_t first,
                                              int64_t last);

// Asks the system for huge pages for `memory` of the CPU that nobody has
// written yet: its first writing then takes a third of the time, and a step
// misses fewer translations. Nothing below 4 MiB, and a hint everywhere: errno
// may change, content and status do not.
ALTGRAD_API void altgrad_prefer_huge_pages(void *memory, uint64_t bytes);

// Whether what is given to `stream`, a CUstream of the current context, is
// captured into a graph now.
ALTGRAD_API altgrad_status altgrad_capturing(void *stream, int32_t *capturing);

// Where the chunk partials of a run lie in its workspace, for collectives
// between two phases (architecture: shards). NULL pointers are skipped.
ALTGRAD_API altgrad_status altgrad_partials(const altgrad_plan *plan,
                                            uint64_t *offset, int64_t *words,
                                            int64_t *chunks);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_H
