// A compiled step, set by set, as whoever binds tensors to it needs it: one description for every front end.
#ifndef ALTGRAD_CORE_ALTGRAD_PROGRAM_H
#define ALTGRAD_CORE_ALTGRAD_PROGRAM_H

#include "altgrad/altgrad.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a list has values for: elements, or blocks of them; columns; the elements of a square of rows x rows, or of one of
// columns x columns.
enum { ALTGRAD_OF_ELEMENTS, ALTGRAD_OF_COLUMNS, ALTGRAD_OF_ROW_SQUARES, ALTGRAD_OF_COLUMN_SQUARES };

// A list of tensors of one set: parameters, gradients, or something that is kept beside the parameters. `key` is the
// rule's name for it. A `tensor_scale` has one f32 for each tensor. A state that is a scalar has a value for each unit
// or for each tensor.
typedef struct altgrad_core_stream {
  const char *name, *key;
  const char *word; // of its role, as ALTGRAD_ROLES spells it
  const char *format;
  int32_t role; // enum altgrad_role
  int32_t set;
  int32_t dtype;    // torch's number of that of the tensor that holds it
  int32_t block;    // elements that share one value; 0: all of a tensor, or of a unit
  int32_t columns;  // of a block over `block` rows: 1 or 128; else 0
  int32_t packed;   // codes of two neighbours share a byte
  int32_t scaled;   // elements that share a scale, which is the block_scale of the same key; else 1
  int32_t of_units; // it is a state with a value for each unit of a parameter; 2: for each row
  int32_t geometry; // what it has values for: ALTGRAD_OF_ELEMENTS and so on
  double first;     // what each of its values begins as
  const char *state; // the key under which an optimizer keeps it; NULL of parameters and gradients
} altgrad_core_stream;
typedef struct altgrad_core_streams {
  const altgrad_core_stream *at;
  int64_t count;
} altgrad_core_streams;

typedef struct altgrad_core_scalar {
  const char *name, *key, *word;
  int32_t role, set, access, type;
  int32_t has_default;
  double value; // the default
} altgrad_core_scalar;
typedef struct altgrad_core_scalars {
  const altgrad_core_scalar *at;
  int64_t count;
} altgrad_core_scalars;

// What the tensors of a set are bound to. Pointers are NULL where the step has no such; without a rule it has no
// `param`.
typedef struct altgrad_core_set {
  const altgrad_core_stream *param, *grad;
  const altgrad_core_scalar *step; // counts the steps of each tensor: f32 or i64
  const altgrad_core_scalar *norm; // f32, of each tensor
  altgrad_core_streams states; // with master or remainder, copy, scales and inputs: a tensor each beside a parameter
  altgrad_core_scalars hypers;     // a value for each group
  altgrad_core_scalars statistics; // f32, what a step says of each tensor
  int64_t unit_multiple; // altgrad_unit_multiple
  int32_t places;        // altgrad_has_places
  int32_t multiplies;    // a phase multiplies its matrices
  int32_t columns;       // altgrad_has_columns
  const char *count;     // the key under which an optimizer keeps `step`; NULL without one
} altgrad_core_set;

// Before `phase`, the shares of other devices or ranks may join these words.
typedef struct altgrad_core_exchange {
  int64_t phase;
  const altgrad_exchange_word *words;
  int64_t count;
} altgrad_core_exchange;

typedef struct altgrad_core_program {
  altgrad_bundle *bundle;
  const altgrad_core_set *sets; // in the order of the request; none in a step of scalars alone
  int64_t set_count;
  altgrad_core_scalars singles; // of the step as a whole
  const altgrad_core_exchange *exchanges;
  int64_t exchange_count;
  const altgrad_partial_info *partials; // of sums over a tensor that its other slices join
  int64_t partial_count;
  const altgrad_warning_info *limits; // what the formats of the storage lose
  int64_t limit_count;
  const int32_t *kinds; // of the phases
  int64_t phase_count;
} altgrad_core_program;

// With its bundle, whose words it has.
ALTGRAD_API void altgrad_core_program_free(const altgrad_core_program *program);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_PROGRAM_H
