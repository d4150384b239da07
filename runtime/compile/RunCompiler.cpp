// Runs altgrad-opt in a child process and judges how that went.
#include "Status.h"
#include "compile/Child.h"
#include "compile/Compiler.h"
#include "files/File.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr size_t mostBundleBytes = size_t(1) << 30;
constexpr double defaultSeconds = 120;

double timeLimit() {
  const char *given = secure_getenv("ALTGRAD_COMPILE_TIMEOUT");
  char *end = nullptr;
  double seconds = given ? strtod(given, &end) : 0;
  bool sound = given && end != given && !*end && seconds > 0 && seconds < 1e6;
  return sound ? seconds : defaultSeconds;
}

// A folder of our own for the compiler's output, gone at the end of the scope.
class Scratch {
public:
  Scratch() {
    const char *base = secure_getenv("TMPDIR");
    folder =
        std::string(base && *base == '/' ? base : "/tmp") + "/altgrad-XXXXXX";
    made = mkdtemp(folder.data()) != nullptr;
  }
  ~Scratch() {
    if (!made)
      return;
    unlink(file().c_str());
    rmdir(folder.c_str());
  }
  std::string file() const { return folder + "/bundle.so"; }

  std::string folder;
  bool made;
};

altgrad_status judge(const Compiler &compiler, const Child &child,
                     double seconds) {
  const char *path = compiler.path.c_str(), *words = child.errors.c_str();
  if (child.stopped)
    return fail(ALTGRAD_INTERRUPTED, "%s was interrupted", path);
  if (child.timedOut)
    return fail(ALTGRAD_COMPILE,
                "%s took more than %g s (ALTGRAD_COMPILE_TIMEOUT) and was "
                "ended\n%s",
                path, seconds, words);
  if (child.signal)
    return fail(ALTGRAD_COMPILE, "%s was ended by signal %d (%s)\n%s", path,
                child.signal, strsignal(child.signal), words);
  if (child.exitCode)
    return child.errors.empty()
               ? fail(ALTGRAD_COMPILE, "%s failed with exit status %d", path,
                      child.exitCode)
               : fail(ALTGRAD_COMPILE, "%s", words);
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad::runtime::runCompiler(
    const Compiler &compiler, const std::vector<std::string> &options,
    const char *spec, uint64_t size, std::vector<char> &out) {
  Scratch scratch;
  if (!scratch.made)
    return fail(ALTGRAD_SYSTEM, "cannot make %s: %s", scratch.folder.c_str(),
                strerror(errno));
  std::vector<std::string> arguments = {compiler.path};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--emit=bundle", "-o", scratch.file()});
  if (spec)
    arguments.push_back("-");
  Child child;
  double seconds = timeLimit();
  if (altgrad_status status = runChild(arguments, spec ? spec : "",
                                       spec ? size : 0, seconds, child))
    return status;
  if (altgrad_status status = judge(compiler, child, seconds))
    return status;
  altgrad_status status =
      readFile(scratch.file().c_str(), mostBundleBytes, out);
  if (status == ALTGRAD_NOT_FOUND || (status == ALTGRAD_OK && out.empty()))
    return fail(ALTGRAD_COMPILE, "%s ended well but wrote no bundle\n%s",
                compiler.path.c_str(), child.errors.c_str());
  return status;
}
