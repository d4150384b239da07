// The tensors of a step as torch has them, behind one C interface for every torch from 2.10 on.
// Python reaches it by ctypes; an at::Tensor of C++ is what an AtenTensorHandle points to.
//
// A function returns an altgrad_status unless it says otherwise, and altgrad_core_error() then
// has a sentence. So it has where an answer that is 1 or 0 is -1, or one that is a text is NULL. Nothing is thrown.
// Use each table in one thread at a time.
#ifndef ALTGRAD_CORE_ALTGRAD_CORE_H
#define ALTGRAD_CORE_ALTGRAD_CORE_H

#include "altgrad/altgrad.h"

#include <torch/csrc/stable/c/shim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct altgrad_table altgrad_table;

// What altgrad_table_validate has found.
enum {
  ALTGRAD_STALE,       // a tensor is not as it was bound: another table is needed
  ALTGRAD_OTHER_GRADS, // no row of a set has a gradient, or one without a row has: the same
  ALTGRAD_FRESH,       // the gradients are bound
  ALTGRAD_ODD          // a gradient cannot be read where it lies
};

// The sentence of this thread's last failure.
ALTGRAD_API const char *altgrad_core_error(void);
// Where this library has found the runtime: the address of its altgrad_version.
ALTGRAD_API const void *altgrad_core_runtime(void);

// torch's products of matrices, as altgrad_set_gemm takes a function. The context is NULL for the CPU; a table
// gives its plan that of another device, whose products go to the stream that is torch's current one.
ALTGRAD_API int32_t altgrad_core_multiply(const altgrad_gemm *gemm, void *context);

// torch's factorizations of squares, as altgrad_set_factorize takes a function; the context
// points to an int32_t, torch's type of the device, or is NULL for the CPU.
ALTGRAD_API int32_t altgrad_core_factorize(const altgrad_factorization *factorization, void *context);
// The same by products alone: inverse roots 1, 2, 4 and 8 by coupled Newton iterations, orthonormal bases by Cholesky
// factors. Squares for which that is not accurate have torch's factors; how many of them there were, in this process.
ALTGRAD_API int32_t altgrad_core_factorize_by_products(const altgrad_factorization *factorization, void *context);
ALTGRAD_API int64_t altgrad_core_fallen_back(void);

// The number of torch's dtype in which numbers of a format lie; codes of others lie in integers. And the format of a
// dtype; NULL where its numbers are none of a stream.
ALTGRAD_API int32_t altgrad_core_dtype(const char *format);
ALTGRAD_API const char *altgrad_core_format(int32_t dtype);
// That of the tensor that holds a stream: scales and codes of which two share a byte have dtypes of their own.
ALTGRAD_API int32_t altgrad_core_stream_dtype(const altgrad_stream_info *info);
// How the tensor of a stream lies beside a parameter: sizes and strides over those of the parameter, with room for two,
// and how many there are. `block` and `columns` are those of altgrad_stream_info, `pairs` says that two codes share a
// byte, `copy` that the stream's key is "copy". ALTGRAD_INVALID, with what follows the parameter's name, where bytes of
// pairs would not say how the parameter lies.
ALTGRAD_API altgrad_status altgrad_core_state_layout(int32_t copy, int32_t block, int32_t columns, int32_t pairs,
                                                int64_t *dims, int64_t *sizes, int64_t *strides);

// What a group of a rule that multiplies says of the matrices that its parameters hold.
typedef struct altgrad_core_matrix_options {
  const int64_t *split; // rows of parts of a matrix, one behind the other; or the rows of each, where it is `equal`
  int64_t count;        // of these numbers
  const char *spelled;  // how the user has written them; NULL: matrices have no parts
  int32_t equal;
  int32_t flat;  // a parameter of more than two dimensions is 1: a matrix with a row for each index of dimension 0;
                 // 0: a stack of those of its last two; -1: a stack where it has three, else that matrix
  int32_t apart; // several matrices are tensors of their own to the step, and not units of one
  int32_t turns; // what has more columns than rows is stepped as its transpose
  const char *unturned;  // an argument that has no form for transposes, as the user has written it; or NULL
  const char *otherwise; // the group for parameters that hold none: "a group with ..."
} altgrad_core_matrix_options;
// The matrices of a parameter, one behind the other in memory.
typedef struct altgrad_core_matrices {
  int64_t rows, columns; // of the first one, as the step takes them
  int64_t count;         // how many there are
  int64_t unit;          // of how many elements each one is a multiple; 0: there is one
  int64_t leading;       // how many dimensions count their rows
  int32_t apart, turned; // as above
  const int64_t *split;  // that of altgrad_core_matrix_options, where their rows differ; else NULL
  int64_t parts;         // numbers there
} altgrad_core_matrices;
// ALTGRAD_INVALID, with what follows the parameter's name, for a shape that holds none. `options` stays where it is.
ALTGRAD_API altgrad_status altgrad_core_find_matrices(const altgrad_core_matrix_options *options, int64_t dims,
                                                       const int64_t *sizes, altgrad_core_matrices *out);
// 1 if their rows lie one behind the other by these strides, else 0: the step then works on a copy with the strides
// `wanted`, one for each dimension.
ALTGRAD_API int32_t altgrad_core_matrix_layout(const altgrad_core_matrices *of, int64_t dims, const int64_t *sizes,
                                      const int64_t *strides, int64_t *wanted);
// In what the Muon of a source differs from torch's, and the AdamW beside it from that Muon.
typedef struct altgrad_core_preset_numbers {
  double lr, decay, eps; // NaN: no difference
} altgrad_core_preset_numbers;
typedef struct altgrad_core_preset {
  altgrad_core_preset_numbers muon, adamw;
  const char *options; // of Muon's rule, by commas
} altgrad_core_preset;
// ALTGRAD_INVALID for a name of none, with a sentence that lists the known ones.
ALTGRAD_API altgrad_status altgrad_core_find_preset(const char *name, altgrad_core_preset *out);

// ALTGRAD_INVALID, with what follows the parameter's name, where the step of a set takes no parameter that lies so;
// `matrices` is NULL where nobody has said which it holds.
ALTGRAD_API altgrad_status altgrad_core_check_fit(altgrad_bundle *bundle, int64_t set,
                                              const altgrad_core_matrices *matrices, int64_t dims,
                                              const int64_t *sizes, const int64_t *strides);

// The same where the step multiplies matrices and a parameter of this shape has none.
ALTGRAD_API altgrad_status altgrad_core_check_matrices(altgrad_bundle *bundle, int64_t set, int64_t dims,
                                                      const int64_t *sizes, const int64_t *strides);

// Whether a rule is spelled as a file, and not as a name: 1 or 0.
ALTGRAD_API int32_t altgrad_core_is_rule_file(const char *spelled);

// Of a line of storage by the keys of states, with words in full: the part of a state's word that the dtype of its
// tensor does not tell, until the thread's next call; "" where the dtype tells everything.
ALTGRAD_API const char *altgrad_core_state_format(const char *line, const char *key);
// Whether a state of a file stored by one line would be other numbers for who stores by another: 1 or 0. `plain`: the
// elements of one that is f32, which too small a tensor has in any storage; -1 of another.
ALTGRAD_API int32_t altgrad_core_formats_differ(const char *file, const char *own, const char *key, int64_t plain);

// A parameter, or one of its matrices that are apart, as a tensor of a plan. Handles stay where they are as long as the
// table, and what they point to may change; the rest is read once.
typedef struct altgrad_core_row {
  const AtenTensorHandle *tensors; // the parameter, what its set keeps beside it in this order, and its count of steps
  // What kernels step in the place of a parameter with gaps, in the order of the states; or NULL.
  AtenTensorHandle dense;
  const int64_t *shape;   // of the whole of which the parameter is a part, or which it is
  int64_t dims, offset;   // of the shape; and the index in the whole of the parameter's first element
  const altgrad_core_matrices *matrices; // which it holds; NULL: nobody has said it
  int64_t piece; // which of them the row is, where they are apart; else -1
  int64_t place; // of the parameter among all
  int64_t more;  // matrices that are apart beside the first of all parameters before it: no tag depends on gradients
  int64_t set, group;
} altgrad_core_row;

// Makes a table for a plan that outlives it, declares the rows to the plan, which come set by set and are of `groups`
// groups, and binds them but for their gradients. With each parameter that the kernels step in a copy, a step copies
// what it is now, and its result back. What was written from outside into a parameter goes into its master first.
ALTGRAD_API altgrad_status altgrad_table_create(altgrad_bundle *bundle, altgrad_plan *plan,
                                                const altgrad_core_row *rows, int64_t count, int64_t groups,
                                                altgrad_table **out);
ALTGRAD_API void altgrad_table_free(altgrad_table *table);
// The rows as the plan knows them; as long as the table.
ALTGRAD_API const altgrad_tensor *altgrad_table_declared(const altgrad_table *table);
// Has the plan's squares factorized by products.
ALTGRAD_API altgrad_status altgrad_core_use_products(altgrad_table *table);
// The memory of the plan's runs; `host` says that the CPU runs them.
ALTGRAD_API altgrad_status altgrad_table_use(altgrad_table *table, void *workspace, uint64_t bytes, int32_t host);

// Parameters that have no gradient and no row. They stay where they are, as the others. Where there is no memory to
// keep them, the next validation finds the table stale.
ALTGRAD_API void altgrad_table_watch(altgrad_table *table, const AtenTensorHandle *params, int64_t count);

// Looks whether every tensor is as it was bound, binds the gradients of the next step and keeps them
// until it has run. Changes no tensor. `given` is NULL for the gradients that autograd keeps, or has one
// or NULL for each row. A gradient that is a negative view, a wrapper or otherwise no plain memory is
// odd, unless `trusted` says that somebody has seen to that. The caller holds Python's lock where there
// is one.
ALTGRAD_API altgrad_status altgrad_table_validate(altgrad_table *table, const AtenTensorHandle *given, int32_t trusted,
                                              int32_t *found);
// Whether the gradients of the last look share no memory with what the step writes: 1 or 0.
ALTGRAD_API int32_t altgrad_table_no_overlap(altgrad_table *table);
// One byte for each row: whether it takes part in the next step. In one place as long as the table;
// altgrad_table_validate writes it.
ALTGRAD_API const uint8_t *altgrad_table_present(const altgrad_table *table);

// Runs the phases up to `last`, -1 for the end, and raises the versions of what they write where
// altgrad_core_python says how.
ALTGRAD_API altgrad_status altgrad_table_run(altgrad_table *table, int64_t last, void *stream);
// Index of the first phase after which every phase works per tensor, so that rows may run by themselves; the number of
// phases if there is none.
ALTGRAD_API int64_t altgrad_table_rows_from(const altgrad_table *table);
// Runs the phases that are left for the rows [first, last) alone. Done for each row once, in any order, it is as
// altgrad_table_run to the end, and then it ends the step.
ALTGRAD_API altgrad_status altgrad_table_run_rows(altgrad_table *table, int64_t first, int64_t last, void *stream);

// Bytes of a gradient from which on a hook costs less than it saves, found by tools/bench.py.
enum { ALTGRAD_HOOK_BYTES = 1 << 20 };
// That, ALTGRAD_CHUNK and ALTGRAD_BLOCKED_NUMEL, for who cannot read this.
ALTGRAD_API int64_t altgrad_core_hook_bytes(void);
ALTGRAD_API int64_t altgrad_core_chunk(void);
ALTGRAD_API int64_t altgrad_core_blocked_numel(void);

// NULL if the steps of this table begin with a sweep that reads gradients alone, so that it may be done before them;
// else why they do not, "" where nothing is clipped.
ALTGRAD_API const char *altgrad_table_unsummed(const altgrad_table *table);
// Does at once what the first sweep of the next step does for a row, if it can; keeps the gradient until then. The step
// takes it where that still is its gradient, of the same version. No gradient: forgets what was summed.
ALTGRAD_API altgrad_status altgrad_table_sum(altgrad_table *table, int64_t row, AtenTensorHandle grad);
// How many rows the last step took so, and how many it swept again.
ALTGRAD_API void altgrad_table_counts(const altgrad_table *table, int64_t counts[2]);

// torch's number of the dtype of a scalar, whose `type` altgrad_scalar_info has.
ALTGRAD_API int32_t altgrad_core_scalar_dtype(int32_t type);

// The numbers of a step: those of groups, by the index of the group and, in it, of the hyper-parameters of its
// set; and those of the whole step, which are the group -1, by the index among `singles` of altgrad_program.h. A
// hyper-parameter of the step has a number in each group, and a step is refused where these differ.
typedef struct altgrad_core_values altgrad_core_values;
// `sets` has the set of each group of the plan. The bundle may go before.
ALTGRAD_API altgrad_status altgrad_core_values_create(altgrad_bundle *bundle, const int32_t *sets, int64_t count,
                                                       altgrad_core_values **out);
ALTGRAD_API void altgrad_core_values_free(altgrad_core_values *values);
// The place of a number, counted in cells of 8 bytes; that behind the last number of the step is the last cell.
ALTGRAD_API int64_t altgrad_core_values_cell(const altgrad_core_values *values, int64_t group, int64_t index);
// Cells on the plan's device, for numbers that lie in tensors and for what the step says. Without them all is
// on the host.
ALTGRAD_API altgrad_status altgrad_core_values_use(altgrad_core_values *values, AtenTensorHandle memory);
// Sets all numbers of these groups, converted to their types; or one of the step.
ALTGRAD_API altgrad_status altgrad_core_values_set(altgrad_core_values *values, const int64_t *groups, int64_t count,
                                                    const double *numbers);
ALTGRAD_API altgrad_status altgrad_core_values_give(altgrad_core_values *values, int64_t index, double number);
// Has one copied from a tensor of one element, of any device, before each step, until it is set or given.
ALTGRAD_API altgrad_status altgrad_core_values_take(altgrad_core_values *values, int64_t group, int64_t index,
                                                     AtenTensorHandle tensor);
// Has the step read and write one of the step in a tensor on its device, from now on.
ALTGRAD_API altgrad_status altgrad_core_values_bind(altgrad_core_values *values, int64_t index,
                                                      AtenTensorHandle tensor);
// Binds what is not bound yet, and copies what lies in tensors.
ALTGRAD_API altgrad_status altgrad_core_values_send(altgrad_core_values *values, altgrad_plan *plan);
// What the host's cell has.
ALTGRAD_API double altgrad_core_values_get(const altgrad_core_values *values, int64_t group, int64_t index);

// How a loss scaler's numbers lie in one memory, by a step of these scalars alone: the cell of 8 bytes of each, in
// their order. The first *now cells are what a step makes anew and, last, what it has found; as many behind them
// are what they become; and one cell is there for each scalar, and one for a 0, which `found` becomes.
ALTGRAD_API altgrad_status altgrad_core_scaler(altgrad_bundle *bundle, int64_t *cells, int64_t *now);

// What Python says of itself, so that this library needs none of its symbols.
typedef struct altgrad_core_python {
  int32_t (*next)(void *, intptr_t *, void **, void **); // PyDict_Next
  void *(*item)(void *, intptr_t);                       // PyList_GetItem
  const void *none;
  int64_t inside; // where a tensor's object has torch's tensor, in bytes
} altgrad_core_python;
ALTGRAD_API void altgrad_core_set_python(const altgrad_core_python *python);

// Where torch's objects keep what is read of them, in bytes; -1: not known.
typedef struct altgrad_core_objects {
  int64_t keys;               // the dispatch keys
  uint64_t negative;          // the key of negative views
  int64_t counter, version;   // the pointer to a version's counter there, and the count behind it
  int64_t autograd, gradient; // the pointer to what autograd keeps, and the gradient behind it
  const void *nothing;        // what is there without a gradient
  int64_t dims;               // up to which tensors may be known again by the words of their objects; -1: none may
} altgrad_core_objects;
// The library tries out up to how many dimensions words of torch's objects say how a tensor lies, and lowers `dims` to
// that.
ALTGRAD_API void altgrad_core_set_objects(altgrad_core_objects *objects);

// ALTGRAD_INVALID, with a sentence, where elements of a tensor lie beyond the end of its storage, because it was
// resized.
ALTGRAD_API altgrad_status altgrad_core_check_extent(AtenTensorHandle tensor);
// ALTGRAD_INVALID, with what follows the tensor's name, where several elements may be at one address.
ALTGRAD_API altgrad_status altgrad_core_check_addresses(AtenTensorHandle tensor);
// Says of plain strided tensors which share memory: `shared` gets a byte for each, `pair` the first two that share
// some, or -1 and -1. Those from `written` on are only read, which they may be in one memory.
ALTGRAD_API altgrad_status altgrad_core_overlap(const AtenTensorHandle *tensors, int64_t count, int64_t written,
                                                uint8_t *shared, int64_t *pair);

// Reads `count` tensors: of each the place of its dtype among float32, bfloat16 and float16, its
// elements and where they begin. *taken is 0 unless each is one run of elements, in plain memory as
// that of the first is, all are on one device, within their storages and, if they are to be
// `written`, apart.
ALTGRAD_API altgrad_status altgrad_core_tensors(const AtenTensorHandle *tensors, int64_t count, int32_t written,
                                                 uint8_t *kinds, int64_t *numels, uint64_t *pointers, int32_t *taken);
// The same of the first tensors of a list of Python. The caller holds Python's lock, here and below.
ALTGRAD_API altgrad_status altgrad_core_list(void *list, int64_t count, int32_t written, uint8_t *kinds,
                                              int64_t *numels, uint64_t *pointers, int32_t *taken);

// Whether the first `count` lists of a list of Python have these items, `lengths` of them, which no
// list falls short of: 1 or 0.
ALTGRAD_API int32_t altgrad_core_same_lists(void *lists, const int64_t *lengths, int64_t count, void *const *items);

// A plan on the CPU that makes one tensor of another: its memory, the names of the streams of both,
// and what it takes: elements, and torch's number of their dtype, and of the dtype of what it makes.
typedef struct altgrad_core_one {
  altgrad_plan *plan;
  void *workspace;
  uint64_t bytes;
  const char *from, *to;
  int64_t numel;
  int32_t type, into;
} altgrad_core_one;
// Runs it on two tensors of Python, `to` a new one; *taken is 0, and nothing done, where one is no
// plain contiguous memory of that size. The lock is held: it is for little work.
ALTGRAD_API altgrad_status altgrad_core_run_one(const altgrad_core_one *one, void *from, void *to, int32_t *taken);

// The entries of a dict of dicts of Python, as optimizer.state is, by their identity. The caller
// keeps keys and values. `inner` has the values of `state` in order, NULL for those into which
// nobody looks.
typedef struct altgrad_core_entries altgrad_core_entries;
ALTGRAD_API altgrad_status altgrad_core_entries_create(void *state, void *const *inner, int64_t count,
                                                        altgrad_core_entries **out);
ALTGRAD_API void altgrad_core_entries_free(altgrad_core_entries *entries);
// 1 if every entry is the object that it was, at the same place; else 0.
ALTGRAD_API int32_t altgrad_core_entries_same(const altgrad_core_entries *entries, void *state);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_CORE_H
