// How a failure gets its words, and how no exception crosses the C boundary.
#ifndef ALTGRAD_RUNTIME_STATUS_H
#define ALTGRAD_RUNTIME_STATUS_H

#include "altgrad/altgrad.h"
#include <exception>
#include <new>

namespace altgrad::runtime {

// Keeps the words for altgrad_last_error and returns `status`.
__attribute__((format(printf, 2, 3), cold)) altgrad_status fail(altgrad_status status, const char *format, ...);

// Prints one line to stderr, the first time a process meets `kind`; the only
// printing there is, for bundles on a disk that cannot be used.
enum class Warning { CacheDirectory, CacheWrite, CacheEntry, Prebuilt };
__attribute__((format(printf, 2, 3), cold)) void warnOnce(Warning kind, const char *format, ...);

// Every exported function that can allocate runs inside this.
template <typename Body> altgrad_status guarded(Body &&body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(ALTGRAD_SYSTEM, "out of memory");
  } catch (const std::exception &error) {
    return fail(ALTGRAD_SYSTEM, "unexpected: %s", error.what());
  } catch (...) {
    return fail(ALTGRAD_SYSTEM, "an exception of an unknown type");
  }
}

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_STATUS_H
