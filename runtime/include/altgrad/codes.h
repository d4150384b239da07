// Codes of formats, and the numbers that they stand for, in host memory.
#ifndef ALTGRAD_CODES_H
#define ALTGRAD_CODES_H

#include "altgrad/altgrad.h"

#ifdef __cplusplus
extern "C" {
#endif

// The bits of a code of the format with this name, as in a stream's `format`; 0 if there
// is no such format. Codes of 2 to 8 bits are stored in one byte, codes of 9 to 16 in two.
ALTGRAD_API int32_t altgrad_format_bits(const char *name);
// Which half of a byte has the even element's code, in a stream with blocks that stores two codes in
// a byte: ALTGRAD_EVEN_LOW, ALTGRAD_EVEN_HIGH, or ALTGRAD_UNPACKED for a format without 4 bits.
ALTGRAD_API int32_t altgrad_format_even(const char *name);
// Converts `count` f32 numbers to codes, rounded to nearest as kernels do. A number beyond the
// format becomes the largest number if `saturates` is not 0, and otherwise an infinity
// or, where the format has none, a NaN. Formats have 2 to 16 bits; others give ALTGRAD_INVALID.
ALTGRAD_API altgrad_status altgrad_format_encode(const char *name, int32_t saturates, const float *numbers, void *codes,
                                                 int64_t count);
// Converts `count` codes to the f32 numbers that they stand for.
ALTGRAD_API altgrad_status altgrad_format_decode(const char *name, const void *codes, float *numbers, int64_t count);

// The meaning of a short name for a format with scales: "ocp.e4m3fn:32:ocp.e8m0" (format of
// elements, block, format of scales) for "mxfp8". NULL if the name is none of these.
ALTGRAD_API const char *altgrad_scaled_preset(const char *name);
// The smallest scale of a block of a code book, whose elements are divided by the scale. 0 for
// all other formats, whose elements are multiplied by the inverse of the scale.
ALTGRAD_API float altgrad_book_least_scale(const char *name);

// Brings edits of a parameter into its float32 `master`, element by element. `param` has
// `count` codes of `format`, "bf16" or "f16". An element of the master that still rounds to
// the parameter keeps its bits; any other one becomes the parameter's number. Both are host
// memory in the same order.
ALTGRAD_API altgrad_status altgrad_take_edits(const char *format, const void *param, float *master, int64_t count);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CODES_H
