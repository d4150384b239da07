// Whole files in and out, with every short read and write accounted for.
#ifndef ALTGRAD_RUNTIME_FILE_H
#define ALTGRAD_RUNTIME_FILE_H

#include "altgrad/altgrad.h"

#include <cstddef>
#include <sys/types.h>
#include <string>
#include <vector>

namespace altgrad::runtime {

// Closes a descriptor at the end of its scope.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() { reset(-1); }
  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  void reset(int other);

private:
  int fd;
};

// Why code must not be loaded from this file, or from this folder; null when it may. It may belong to the user, to
// root, or to `other`.
const char *trustDefect(int fd, bool isFolder, uid_t other);

// Reads a whole regular file; refuses others and more than `most` bytes.
altgrad_status readFile(const char *path, size_t most, std::vector<char> &out);

// Reads `fd` to its end, but at most `most` bytes; false with errno.
bool readAll(int fd, size_t most, std::vector<char> &out);

// Writes all bytes; false with errno. A file-size limit is an error, not the
// signal that would end the process.
bool writeAll(int fd, const char *bytes, size_t size);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_FILE_H
