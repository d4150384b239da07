// How a failure leaves this library: as a status and a sentence.
#ifndef ALTGRAD_CORE_ERRORS_H
#define ALTGRAD_CORE_ERRORS_H

#include "altgrad/altgrad.h"

#include <exception>
#include <stdexcept>
#include <string>

namespace altgrad::core {

struct Refusal : std::runtime_error {
  Refusal(altgrad_status status, const std::string &words) : std::runtime_error(words), status(status) {}
  altgrad_status status;
};

// Throws what the runtime says.
inline void check(altgrad_status status) {
  if (status != ALTGRAD_OK)
    throw Refusal(status, altgrad_last_error());
}

// What a bundle says of one of its streams, scalars or phases.
template <typename Info, typename Function> Info describe(Function function, altgrad_bundle *bundle, int64_t index) {
  Info info{};
  info.size = sizeof info;
  check(function(bundle, index, &info));
  return info;
}

// The sentence of this thread's last failure. It lies in memory of the thread, so that keeping it needs none.
const char *lastError();
void keepError(const char *words) noexcept;

// Runs `body` and tells of what it throws. Every exported function does in this what may allocate or throw.
template <typename Body> altgrad_status guarded(const Body &body) noexcept {
  try {
    body();
    return ALTGRAD_OK;
  } catch (const Refusal &refusal) {
    keepError(refusal.what());
    return refusal.status;
  } catch (const std::exception &error) {
    keepError(error.what());
  } catch (...) {
    keepError("an exception of an unknown type");
  }
  return ALTGRAD_SYSTEM;
}

// The same for an answer that is no status; `none` where there is no answer.
template <typename Answer, typename Body> Answer guarded(Answer none, const Body &body) noexcept {
  const altgrad_status status = guarded([&] { none = body(); });
  (void)status; // the sentence says it
  return none;
}

} // namespace altgrad::core

#endif // ALTGRAD_CORE_ERRORS_H
