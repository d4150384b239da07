// The storage line, "m=bf16 v=ocp.e5m2:128,keep_positive": what its words say, and the set of a request that follows.
#ifndef ALTGRAD_CORE_ALTGRAD_STORAGE_H
#define ALTGRAD_CORE_ALTGRAD_STORAGE_H

#include "altgrad/altgrad.h"

#ifdef __cplusplus
extern "C" {
#endif

// What follows the '=', in full: "ocp.e4m3fn:32:ocp.e8m0,both".
typedef struct altgrad_core_word {
  char format[32];  // of "bf16+i16" that of the remainder, int16
  char scales[32];  // format of the scales; "f32" where it names none
  char bent[16];    // what is applied before numbers are rounded: "softsign", "sqrt" or ""
  int32_t dtype;    // torch's number of that of the numbers, or of their codes
  int32_t block;    // elements in a row that share a scale; else 1
  int32_t columns;  // of squares, of as many rows, that share one; else 0
  int32_t multiple; // of so many elements is a row where there are several
  int32_t packed;   // two codes share a byte
  int32_t split;    // the parameter is the upper half
  int32_t both;     // there are blocks of columns, too
  int32_t levels;   // there is a scale for the tensor above those of the blocks, as in nvfp4
  int32_t of_tensor; // one scale for the tensor
  int32_t past;     // and past magnitudes, by which it is found
  int32_t scaled;   // codes have scales at all
  int32_t min_size; // a state has its blocks from so many elements of the tensor on
} altgrad_core_word;
ALTGRAD_API altgrad_status altgrad_core_word_of(const char *word, altgrad_core_word *out);

// These live until the thread's next call; NULL where memory is short. A word, or a line of them, whose short names of
// formats are in full: "copy=ocp.e4m3fn:32:ocp.e8m0,floor" of "copy=mxfp8,floor".
ALTGRAD_API const char *altgrad_core_in_full(const char *line);
// How a copy is stored before there was a step: nobody has drawn, and one scale is by the parameter's largest number.
ALTGRAD_API const char *altgrad_core_first_word(const char *word);

// The line with states under other names and its words in full; `keys` has "state=key" for each, by spaces. Under the
// rule's names, as a request has them: ALTGRAD_INVALID where a state and its key both have a word.
ALTGRAD_API altgrad_status altgrad_core_line_by_names(const char *line, const char *keys, const char **out);
// Under their keys, as files have them.
ALTGRAD_API const char *altgrad_core_line_by_keys(const char *line, const char *keys);

// ALTGRAD_INVALID where no compiler takes a word, in full: a tensor that is large enough for blocks may come later.
ALTGRAD_API altgrad_status altgrad_core_check_storage(const char *line);

// A parameter, as the line of its set in a request depends on it.
typedef struct altgrad_core_line {
  const char *rule;    // as the request spells it
  const char *options; // by commas
  const char *storage; // in full
  const char *others;  // states that other rules of the optimizer have and this one has not, by spaces
  int32_t param, grad; // torch's dtypes
  int64_t numel;       // of the whole tensor; 0: no state has scales, because blocks would be cut
  // States that it has: the rule's names, the user's, and their dtypes; -1 for one that is still to be made.
  const char *const *names, *const *keys;
  const int32_t *dtypes;
  int64_t count;
} altgrad_core_line;
// ALTGRAD_INVALID where its tensors are others than the storage says.
ALTGRAD_API altgrad_status altgrad_core_set_line(const altgrad_core_line *of, const char **out);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_STORAGE_H
