// What the runtime refuses, as an error of torch's.
#ifndef ALTGRAD_TORCH_ERRORS_H
#define ALTGRAD_TORCH_ERRORS_H

#include "core/altgrad_core.h"

#include <c10/util/Exception.h>

// As TORCH_CHECK and its kin, whose errors end with a backtrace of altgrad's functions.
#define ALTGRAD_CHECK_WITH(KIND, CONDITION, ...)                                                                       \
  do {                                                                                                                 \
    if (!(CONDITION))                                                                                                  \
      throw KIND(c10::str(__VA_ARGS__));                                                                               \
  } while (false)
#define ALTGRAD_CHECK(CONDITION, ...) ALTGRAD_CHECK_WITH(c10::Error, CONDITION, __VA_ARGS__)
#define ALTGRAD_CHECK_VALUE(CONDITION, ...) ALTGRAD_CHECK_WITH(c10::ValueError, CONDITION, __VA_ARGS__)
#define ALTGRAD_CHECK_TYPE(CONDITION, ...) ALTGRAD_CHECK_WITH(c10::TypeError, CONDITION, __VA_ARGS__)

namespace altgrad::optim {

// Throws when `status` is not ALTGRAD_OK; `words` has its sentence.
inline void check(altgrad_status status, const char *(*words)() = altgrad_last_error) {
  ALTGRAD_CHECK(status == ALTGRAD_OK, "altgrad: ", words());
}

// The same of a function of libaltgrad_core.so.
inline void checkTable(altgrad_status status) { check(status, altgrad_core_error); }
// What is 1 or 0, or -1 where there is no answer.
inline bool isTrue(int32_t answer) {
  checkTable(answer < 0 ? ALTGRAD_SYSTEM : ALTGRAD_OK);
  return answer != 0;
}

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_ERRORS_H
