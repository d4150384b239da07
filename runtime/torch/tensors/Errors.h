// What the runtime refuses, as an error of torch's.
#ifndef ALTGRAD_TORCH_ERRORS_H
#define ALTGRAD_TORCH_ERRORS_H

#include "core/table.h"

#include <c10/util/Exception.h>

namespace altgrad::optim {

// Throws when `status` is not ALTGRAD_OK; `words` has its sentence.
inline void check(altgrad_status status, const char *(*words)() = altgrad_last_error) {
  TORCH_CHECK(status == ALTGRAD_OK, "altgrad: ", words());
}

// The same of a function of libaltgrad_torch.so.
inline void checkTable(altgrad_status status) { check(status, altgrad_table_error); }

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_ERRORS_H
