// Whole files in and out.
#include "files/File.h"
#include "Status.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::runtime;

void Descriptor::reset(int other) {
  if (fd >= 0)
    close(fd);
  fd = other;
}

const char *altgrad::runtime::trustDefect(int fd, bool isFolder, uid_t other) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return strerror(errno);
  if (isFolder ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
    return isFolder ? "is not a directory" : "is not a file";
  if (info.st_uid != geteuid() && info.st_uid != other && info.st_uid != 0)
    return "belongs to another user";
  if (info.st_mode & 022)
    return "is writable by others, or by a group; chmod go-w mends that";
  return nullptr;
}

bool altgrad::runtime::readAll(int fd, size_t most, std::vector<char> &out) {
  out.clear();
  struct stat info;
  size_t step = 4096;
  if (fstat(fd, &info) == 0 && info.st_size > 0)
    step = size_t(info.st_size) < most ? size_t(info.st_size) + 1 : most;
  for (size_t have = 0;;) {
    size_t want = have + step < most ? have + step : most;
    out.resize(want);
    ssize_t got = want > have ? read(fd, out.data() + have, want - have) : 0;
    if (got < 0 && errno == EINTR)
      continue;
    out.resize(have += got > 0 ? size_t(got) : 0);
    if (got <= 0)
      return got == 0;
  }
}

altgrad_status altgrad::runtime::readFile(const char *path, size_t most, std::vector<char> &out) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  Descriptor file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return fail(errno == ENOENT || errno == ENOTDIR ? ALTGRAD_NOT_FOUND : ALTGRAD_SYSTEM, "%s: %s", path,
                strerror(errno));
  struct stat info;
  if (fstat(file.get(), &info) != 0)
    return fail(ALTGRAD_SYSTEM, "%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fail(ALTGRAD_INVALID, "%s is not a regular file", path);
  if (size_t(info.st_size) > most)
    return fail(ALTGRAD_INVALID, "%s has %lld bytes, more than %zu", path, (long long)info.st_size, most);
  if (!readAll(file.get(), most, out))
    return fail(ALTGRAD_SYSTEM, "%s: %s", path, strerror(errno));
  return ALTGRAD_OK;
}

bool altgrad::runtime::writeAll(int fd, const char *bytes, size_t size) {
  sigset_t limit, before, pending;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  sigpending(&pending);
  bool wasPending = sigismember(&pending, SIGXFSZ);

  int error = 0;
  while (size > 0) {
    ssize_t done = write(fd, bytes, size);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0) {
      error = done < 0 ? errno : EIO;
      break;
    }
    bytes += done;
    size -= size_t(done);
  }

  timespec now = {0, 0};
  if (error == EFBIG && !wasPending)
    while (sigtimedwait(&limit, nullptr, &now) < 0 && errno == EINTR)
      ;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return error == 0;
}
