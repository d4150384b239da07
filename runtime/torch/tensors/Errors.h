// What the runtime refuses, as an error of torch's.
#ifndef ALTGRAD_TORCH_ERRORS_H
#define ALTGRAD_TORCH_ERRORS_H

#include "altgrad/altgrad.h"

#include <c10/util/Exception.h>

namespace altgrad::optim {

struct Refusal : c10::Error {
  Refusal(altgrad_status status, const std::string &words)
      : c10::Error({__func__, __FILE__, uint32_t(__LINE__)},
                   "altgrad: " + words),
        status(status), words(words) {}
  altgrad_status status;
  std::string words;
};

// Throws a Refusal when `status` is not ALTGRAD_OK; `words` has its sentence.
inline void check(altgrad_status status,
                  const char *(*words)() = altgrad_last_error) {
  if (status != ALTGRAD_OK)
    throw Refusal(status, words());
}

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_ERRORS_H
