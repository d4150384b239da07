// Runs another program without a shell.
#ifndef ALTGRAD_RUNTIME_CHILD_H
#define ALTGRAD_RUNTIME_CHILD_H

#include "altgrad/altgrad.h"

#include <string>
#include <vector>

namespace altgrad::runtime {

struct Child {
  bool timedOut = false;
  bool stopped = false; // as the program wished
  bool reaped = false;  // by somebody else, who knows how it ended: SIGCHLD is ignored
  int signal = 0;       // that ended it, or 0
  int exitCode = 0;     // when no signal did
  std::vector<char> output;
  std::string errors; // their beginning
};

// Whether this thread is asked to wait no longer: altgrad_set_interrupt.
bool interrupted();

// Runs arguments[0] with `input` on its standard input, waits at most `seconds` and
// until it is interrupted, then kills it and what it started. It takes at most `most` bytes
// of output. A failure to start it is ALTGRAD_NOT_FOUND or ALTGRAD_SYSTEM; what it does
// afterwards is in `out`.
altgrad_status runChild(const std::vector<std::string> &arguments, const char *input, size_t size, double seconds,
                        size_t most, Child &out);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_CHILD_H
