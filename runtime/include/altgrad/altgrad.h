// altgrad's runtime: loads a bundle, binds tensors to it by name, runs it.
//
// Every function returns a status; ALTGRAD_OK is 0. After a failure
// altgrad_last_error() has the words, per thread. No function throws or aborts;
// nothing is printed but one warning of each kind about the cache, on stderr.
// Loading this library starts no thread and opens no driver.
//
// Environment: ALTGRAD_OPT (the compiler), ALTGRAD_CACHE_DIR, ALTGRAD_CACHE_MAXSIZE
// (bytes, 512 MiB), ALTGRAD_COMPILE_TIMEOUT (seconds, 120), TMPDIR.
// Handles are not locked: one thread at a time per handle.
#ifndef ALTGRAD_H
#define ALTGRAD_H

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
// "altgrad 0.1.0, ABI 1"
ALTGRAD_API const char *altgrad_version(void);

//===-- Bundles --------------------------------------------------------------//

// Loads a bundle from a file: read once, verified, opened from memory.
ALTGRAD_API altgrad_status altgrad_load(const char *path, altgrad_bundle **out);

// Compiles `spec` (MLIR text, `size` bytes; may be NULL when the options name a
// rule) with the options of altgrad-opt, one per line ("--rule=adamw\n--clip"),
// in a child process, or takes the result from the cache. `compiler` is the
// path of altgrad-opt; NULL: $ALTGRAD_OPT, beside this library, on PATH.
ALTGRAD_API altgrad_status altgrad_compile(const char *spec, uint64_t size,
                                           const char *options,
                                           const char *compiler,
                                           altgrad_bundle **out);

// The manifest described in bundle.h, alive as long as the bundle.
ALTGRAD_API const char *altgrad_manifest(const altgrad_bundle *bundle);

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

// Declares the tensors: `nrows` of them, each with its number of elements, its
// group in [0, ngroups), its set (NULL where the step has one; the manifest says
// which set a stream is of), the global index of its first element (`offset`,
// NULL: 0) and its tag (NULL: its index). Rows come set by set. Forgets all
// pointers bound before.
ALTGRAD_API altgrad_status
altgrad_bind_rows(altgrad_plan *plan, int64_t nrows, const int64_t *numel,
                  const int64_t *group, int64_t ngroups, const int64_t *set,
                  const int64_t *offset, const int64_t *tag);

// Binds a stream: one device pointer per row (any, NULL included, where the row
// has no elements or is of another set). May be called before every run;
// pointers of "in" streams are the cheap ones to move. A step that commits some
// tensors always and others on a condition may read an "out" stream to write its
// old bytes back.
ALTGRAD_API altgrad_status altgrad_bind_stream(altgrad_plan *plan,
                                               const char *name,
                                               void *const *pointers,
                                               int64_t count);

// Binds a scalar to the memory that holds it: 1 pointer (scope "step"),
// ngroups ("group") or nrows ("tensor").
ALTGRAD_API altgrad_status altgrad_bind_scalar(altgrad_plan *plan,
                                               const char *name,
                                               void *const *pointers,
                                               int64_t count);

// Bytes of workspace a run needs for the rows bound now; 64-byte aligned memory
// on the plan's device, owned by the caller, with no content to keep between
// runs but kept between the phases of one.
ALTGRAD_API altgrad_status altgrad_workspace(altgrad_plan *plan,
                                             uint64_t *bytes);

ALTGRAD_API altgrad_status altgrad_phases(const altgrad_plan *plan,
                                          int64_t *count);

// Runs body(begin, end, context) over parts of [begin, end) and returns when all
// are done: the signature of torch_parallel_for in libtorch_cpu (2.11).
typedef void (*altgrad_parallel_for)(int64_t begin, int64_t end, int64_t grain,
                                     void (*body)(int64_t, int64_t, void *),
                                     void *context);

// Runs host phases on this function instead of the runtime's own threads;
// NULL: own threads, started at the first run that needs them.
ALTGRAD_API altgrad_status altgrad_set_parallel_for(altgrad_plan *plan,
                                                    altgrad_parallel_for run);
// Own threads for host phases; 0: one per CPU this process may use.
ALTGRAD_API altgrad_status altgrad_set_threads(altgrad_plan *plan, int32_t n);

// Runs phases [first, last) (last < 0: to the end). `stream` is a CUstream for a
// CUDA plan, ignored otherwise. Allocates nothing and reads nothing back. An
// unbound name is ALTGRAD_INVALID and nothing runs.
ALTGRAD_API altgrad_status altgrad_run(altgrad_plan *plan, void *workspace,
                                       uint64_t bytes, int64_t first,
                                       int64_t last, void *stream);

// Where the chunk partials of a run lie in its workspace, for collectives
// between two phases (architecture: shards). NULL pointers are skipped.
ALTGRAD_API altgrad_status altgrad_partials(const altgrad_plan *plan,
                                            uint64_t *offset, int64_t *words,
                                            int64_t *chunks);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_H
