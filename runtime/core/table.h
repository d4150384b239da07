// The tensors of a step as torch has them, behind one C interface for every torch from 2.10 on.
// Python reaches it by ctypes.
//
// A function returns an altgrad_status unless it says otherwise, and altgrad_table_error() then
// has a sentence. Use each table in one thread at a time.
#ifndef ALTGRAD_CORE_TABLE_H
#define ALTGRAD_CORE_TABLE_H

#include "altgrad/altgrad.h"

#include <torch/csrc/stable/c/shim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct altgrad_table altgrad_table;

// What altgrad_table_look has found.
enum {
  ALTGRAD_STALE,       // a tensor is not as it was bound: another table is needed
  ALTGRAD_OTHER_GRADS, // no row has a gradient: the same
  ALTGRAD_FRESH,       // the gradients are bound
  ALTGRAD_ODD          // a gradient cannot be read where it lies
};

// The sentence of this thread's last failure.
ALTGRAD_API const char *altgrad_table_error(void);
// Where this library has found the runtime: the address of its altgrad_version.
ALTGRAD_API const void *altgrad_table_runtime(void);

// torch's products of matrices on the CPU, as altgrad_set_gemm takes a function. The context is not used.
ALTGRAD_API int32_t altgrad_table_multiply(const altgrad_gemm *gemm,
                                           void *context);

// Makes a table for a plan that outlives it. `tensors` are those that were declared, set by set;
// `types` are torch's numbers of the dtypes of their gradients, whose streams the table binds.
// `handles` has, row by row, the parameter, what is kept beside it and its count of steps,
// `width[set]` of them for each row. They stay where they are, and what they point to may change.
ALTGRAD_API altgrad_status altgrad_table_create(
    altgrad_bundle *bundle, altgrad_plan *plan, const altgrad_tensor *tensors,
    const int32_t *types, int64_t count, const AtenTensorHandle *handles,
    const int64_t *widths, altgrad_table **out);
ALTGRAD_API void altgrad_table_free(altgrad_table *table);
// The memory of the plan's runs; `host` says that the CPU runs them.
ALTGRAD_API altgrad_status altgrad_table_use(altgrad_table *table,
                                             void *workspace, uint64_t bytes,
                                             int32_t host);
// Says in which order of memory the elements of a row are visited whose parameter is not dense;
// `strides` has one number for each of its dimensions.
ALTGRAD_API altgrad_status altgrad_table_arrange(altgrad_table *table,
                                                 int64_t row,
                                                 const int64_t *strides);

// Looks whether every tensor is as it was bound, and binds the gradients of the next step, one
// handle for each row, NULL for a row without one. Changes no tensor. Nobody but the caller keeps
// the gradients until the step has run. A gradient that is a negative view, a wrapper or otherwise no
// plain memory is odd, unless `trusted` says that somebody has seen to that.
ALTGRAD_API altgrad_status altgrad_table_look(altgrad_table *table,
                                              const AtenTensorHandle *grads,
                                              int32_t trusted, int32_t *found);
// Asks the processor for what describes the tensors of the rows [first, last), or only their
// parameters. Changes nothing.
ALTGRAD_API void altgrad_table_fetch(const altgrad_table *table, int64_t first,
                                     int64_t last, int32_t params);
// One byte for each row: whether it takes part in the next step. Valid until the next look.
ALTGRAD_API const uint8_t *altgrad_table_present(const altgrad_table *table);

// Runs the phases up to `last`, -1 for the end. `summed`, read where the run begins, has a byte for
// each row: whether the gradient that altgrad_table_sum was given still is this step's. NULL: none.
ALTGRAD_API altgrad_status altgrad_table_run(altgrad_table *table,
                                             const uint8_t *summed,
                                             int64_t last, void *stream);

// Does at once what the first sweep of the next step does for a row, if it can: *done says so.
ALTGRAD_API altgrad_status altgrad_table_sum(altgrad_table *table, int64_t row,
                                             AtenTensorHandle grad,
                                             int32_t *done);
// How many rows the last step took so, and how many it swept again.
ALTGRAD_API void altgrad_table_counts(const altgrad_table *table,
                                      int64_t counts[2]);

// What Python says of itself, so that this library needs none of its symbols.
typedef struct altgrad_table_python {
  int32_t (*next)(void *, intptr_t *, void **, void **); // PyDict_Next
  void *(*item)(void *, intptr_t);                       // PyList_GetItem
  const void *none;
  int64_t inside; // where a tensor's object has torch's tensor, in bytes
  int64_t keys;   // where torch's object has its dispatch keys; -1: not known
  uint64_t negative; // the key of negative views
} altgrad_table_python;
ALTGRAD_API void altgrad_table_set_python(const altgrad_table_python *python);

// The same as altgrad_table_look for a list of Python, of tensors and None. The caller holds Python's
// lock in this call and in the next ones.
ALTGRAD_API altgrad_status altgrad_table_look_at_list(altgrad_table *table,
                                                      void *list,
                                                      int32_t trusted,
                                                      int32_t *found);

// The entries of a dict of dicts of Python, as optimizer.state is, by their identity. The caller
// keeps keys and values. `inner` has the values of `state` in order, NULL for those into which
// nobody looks.
typedef struct altgrad_table_entries altgrad_table_entries;
ALTGRAD_API altgrad_status altgrad_table_entries_create(
    void *state, void *const *inner, int64_t count, altgrad_table_entries **out);
ALTGRAD_API void altgrad_table_entries_free(altgrad_table_entries *entries);
// 1 if every entry is the object that it was, at the same place; else 0.
ALTGRAD_API int32_t
altgrad_table_entries_same(const altgrad_table_entries *entries, void *state);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_TABLE_H
