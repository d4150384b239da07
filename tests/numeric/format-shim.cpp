// The codec over arrays, for test_format_peers.py.
#include "altgrad/format.h"

#include <cstddef>

using namespace altgrad;

extern "C" void shim_encode(const Format *format, const uint32_t *in,
                            uint32_t *out, size_t count, int saturate) {
  for (size_t i = 0; i < count; ++i)
    out[i] = encodeBits(*format, in[i], Rounding::NearestEven,
                        saturate ? Overflow::Saturate : Overflow::NonFinite);
}

extern "C" void shim_decode(const Format *format, const uint32_t *in,
                            uint32_t *out, size_t count) {
  for (size_t i = 0; i < count; ++i)
    out[i] = decodeBits(*format, in[i]);
}
