// Rounding of tensors: how scales lie over one, and which words of a storage line name blocks that have some.
#ifndef ALTGRAD_CORE_ALTGRAD_QUANT_H
#define ALTGRAD_CORE_ALTGRAD_QUANT_H

#include "altgrad/altgrad.h"

#ifdef __cplusplus
extern "C" {
#endif

// A contiguous tensor in stretches of memory, each with scales that lie in a row.
typedef struct altgrad_core_stretches {
  char extent[8];  // what a scale is of, as altgrad-opt's --scales takes it: "tensor", "element", or so many neighbours
  int64_t columns; // elements of a stretch
  const int64_t *first; // of each stretch, the place of its first scale, in elements; until the thread's next call
  int64_t count;        // of stretches
} altgrad_core_stretches;
// The stretches of a tensor of these sizes, which has an element. Sizes and strides of the scales broadcast against it;
// with `block` above 0 its last dimension has one for each `block` neighbours. There are none where the result would be
// larger than the tensor, or where they would be too many.
ALTGRAD_API altgrad_status altgrad_core_find_stretches(int64_t dims, const int64_t *sizes, int64_t scale_dims,
                                                       const int64_t *scale_sizes, const int64_t *scale_strides,
                                                       int64_t block, altgrad_core_stretches *out);

// "ocp.e4m3fn:32:ocp.e8m0" for "mxfp8": a word in full, until the thread's next call. NULL, with a sentence, where it
// names no blocks of rows with scales that are known without a step.
ALTGRAD_API const char *altgrad_core_blocks_word(const char *word);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_QUANT_H
