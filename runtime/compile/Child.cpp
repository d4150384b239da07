// Runs another program: posix_spawn, because fork would copy the page tables of
// a training process.
#include "compile/Child.h"
#include "files/File.h"
#include "Status.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <memory>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr size_t mostWords = 64 << 10;

thread_local int32_t (*stop)() = nullptr;

struct Actions {
  Actions() { posix_spawn_file_actions_init(&value); }
  ~Actions() { posix_spawn_file_actions_destroy(&value); }
  posix_spawn_file_actions_t value;
};

struct Attributes {
  Attributes() { posix_spawnattr_init(&value); }
  ~Attributes() { posix_spawnattr_destroy(&value); }
  posix_spawnattr_t value;
};

// Not every library opens its descriptors close-on-exec.
void closeTheRest(Actions &actions) {
  std::unique_ptr<DIR, int (*)(DIR *)> listing(opendir("/proc/self/fd"), closedir);
  while (dirent *item = listing ? readdir(listing.get()) : nullptr)
    if (int fd = atoi(item->d_name); fd > 2)
      posix_spawn_file_actions_addclose(&actions.value, fd);
}

// Default signals, none blocked, and a process group to kill as a whole.
void setAttributes(Attributes &attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawnattr_setsigmask(&attributes.value, &none);
  posix_spawnattr_setsigdefault(&attributes.value, &all);
  posix_spawnattr_setpgroup(&attributes.value, 0);
  posix_spawnattr_setflags(&attributes.value, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void await(pid_t pid, double seconds, Child &child) {
  double limit = now() + seconds;
  siginfo_t info{};
  for (long pause = 200'000;; pause = std::min(pause * 2, 10'000'000L)) {
    info.si_pid = 0;
    child.reaped = waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) < 0;
    if (child.reaped || info.si_pid == pid)
      break;
    if (!child.timedOut && !child.stopped) {
      child.timedOut = now() > limit;
      child.stopped = interrupted();
      if (child.timedOut || child.stopped)
        kill(-pid, SIGKILL);
    }
    timespec sleep = {0, pause};
    nanosleep(&sleep, nullptr);
  }
  if (child.reaped)
    return; // its output tells how it ended
  // The number cannot belong to another group as long as nobody has waited.
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  bool exited = info.si_code == CLD_EXITED;
  child.exitCode = exited ? info.si_status : 0;
  child.signal = exited ? 0 : info.si_status;
}

bool contentsOf(const Descriptor &file, size_t most, std::vector<char> &bytes) {
  return lseek(file.get(), 0, SEEK_SET) == 0 && readAll(file.get(), most, bytes);
}

} // namespace

void altgrad_set_interrupt(int32_t (*given)()) { stop = given; }

bool altgrad::runtime::interrupted() { return stop && stop(); }

altgrad_status altgrad::runtime::runChild(const std::vector<std::string> &arguments, const char *input, size_t size,
                                          double seconds, size_t most, Child &out) {
  // Files in memory: nobody has to drain them, and nobody else can reach them.
  Descriptor in(memfd_create("altgrad-in", MFD_CLOEXEC));
  Descriptor output(memfd_create("altgrad-out", MFD_CLOEXEC));
  Descriptor errors(memfd_create("altgrad-err", MFD_CLOEXEC));
  if (!in || !output || !errors || !writeAll(in.get(), input, size) || lseek(in.get(), 0, SEEK_SET) != 0)
    return fail(ALTGRAD_SYSTEM, "cannot start %s: %s", arguments[0].c_str(), strerror(errno));

  Actions actions;
  posix_spawn_file_actions_adddup2(&actions.value, in.get(), 0);
  posix_spawn_file_actions_adddup2(&actions.value, output.get(), 1);
  posix_spawn_file_actions_adddup2(&actions.value, errors.get(), 2);
  closeTheRest(actions);
  Attributes attributes;
  setAttributes(attributes);

  std::vector<char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  int error = posix_spawn(&pid, argv[0], &actions.value, &attributes.value, argv.data(), environ);
  if (error)
    return fail(error == ENOENT ? ALTGRAD_NOT_FOUND : ALTGRAD_SYSTEM, "cannot start %s: %s", argv[0], strerror(error));
  await(pid, seconds, out);
  std::vector<char> words;
  if (!contentsOf(output, most, out.output) || !contentsOf(errors, mostWords, words))
    return fail(ALTGRAD_SYSTEM, "cannot read what %s wrote: %s", argv[0], strerror(errno));
  out.errors.assign(words.begin(), words.end());
  return ALTGRAD_OK;
}
