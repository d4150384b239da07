// The last error of each thread, and warnings that are given once.
#include "Status.h"

#include "altgrad/bundle.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

// A fixed buffer: the words of "out of memory" must not need memory.
static thread_local char lastError[8192];

altgrad_status altgrad::runtime::fail(altgrad_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(lastError, sizeof lastError, format, arguments);
  va_end(arguments);
  return status;
}

void altgrad::runtime::warnOnce(Warning kind, const char *format, ...) {
  static std::atomic<unsigned> given{0};
  unsigned bit = 1u << unsigned(kind);
  if (given.fetch_or(bit) & bit)
    return;
  char words[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  fprintf(stderr, "altgrad: warning: %s\n", words);
}

const char *altgrad_last_error(void) { return lastError; }

static_assert(ALTGRAD_ABI == 5, "the words below name another ABI");
const char *altgrad_version(void) { return "altgrad " ALTGRAD_VERSION ", ABI 5"; }
