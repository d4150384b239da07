// LLVM's archives were built with glibc 2.36 and want its arc4random, which
// systems with 2.34 and 2.35 lack: without it here a wheel would not start
// there.
#include <cstdint>
#include <sys/random.h>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() {
  uint32_t random = 0;
  while (getrandom(&random, sizeof random, 0) != ssize_t(sizeof random))
    ;
  return random;
}
