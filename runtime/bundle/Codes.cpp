// Numbers to codes and back, one by one: for files, not for steps.
#include "Status.h"
#include "altgrad/altgrad.h"
#include "altgrad/format.h"

#include <cstring>

using namespace altgrad;
using runtime::fail;

namespace {

// The format of this name, or null: f32 is no code.
const Format *find(const char *name) {
  for (const Preset &preset : presets)
    if (name && strcmp(preset.name, name) == 0 && preset.format.bits() <= 16)
      return &preset.format;
  return nullptr;
}

template <typename Code>
void encodeAll(const Format &format, Overflow overflow, const float *numbers, void *codes, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    static_cast<Code *>(codes)[i] = Code(encode(format, numbers[i], Rounding::NearestEven, overflow));
}

template <typename Code> void decodeAll(const Format &format, const void *codes, float *numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = decode(format, static_cast<const Code *>(codes)[i]);
}

altgrad_status refuse(const char *name, const void *from, const void *to, int64_t count) {
  if (!find(name))
    return fail(ALTGRAD_INVALID, "no format of 2 to 16 bits is called '%s'", name ? name : "");
  if (count < 0 || (count > 0 && (!from || !to)))
    return fail(ALTGRAD_INVALID, "%lld codes to convert, from %p to %p", static_cast<long long>(count), from, to);
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad_format_encode(const char *name, int32_t saturates, const float *numbers, void *codes,
                                     int64_t count) {
  if (altgrad_status status = refuse(name, numbers, codes, count))
    return status;
  const Format &format = *find(name);
  Overflow overflow = saturates ? Overflow::Saturate : Overflow::NonFinite;
  auto all = format.bits() > 8 ? encodeAll<uint16_t> : encodeAll<uint8_t>;
  all(format, overflow, numbers, codes, count);
  return ALTGRAD_OK;
}

altgrad_status altgrad_format_decode(const char *name, const void *codes, float *numbers, int64_t count) {
  if (altgrad_status status = refuse(name, codes, numbers, count))
    return status;
  const Format &format = *find(name);
  auto all = format.bits() > 8 ? decodeAll<uint16_t> : decodeAll<uint8_t>;
  all(format, codes, numbers, count);
  return ALTGRAD_OK;
}

float altgrad_book_least_scale(const char *name) {
  const Format *format = find(name);
  return format && format->book ? books[format->book - 1].leastScale : 0;
}
