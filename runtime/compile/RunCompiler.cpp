// Runs altgrad-opt in a child process and judges how that went.
#include "Status.h"
#include "compile/Child.h"
#include "compile/Compiler.h"

#include <cstdlib>
#include <cstring>

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

altgrad_status judge(const Compiler &compiler, const Child &child, double seconds) {
  const char *path = compiler.path.c_str(), *words = child.errors.c_str();
  if (child.stopped)
    return fail(ALTGRAD_INTERRUPTED, "%s was interrupted", path);
  if (child.timedOut)
    return fail(ALTGRAD_COMPILE,
                "%s took more than %g s (ALTGRAD_COMPILE_TIMEOUT) and was "
                "ended\n%s",
                path, seconds, words);
  if (child.signal)
    return fail(ALTGRAD_COMPILE, "%s was ended by signal %d (%s)\n%s", path, child.signal, strsignal(child.signal),
                words);
  if (child.exitCode)
    return child.errors.empty() ? fail(ALTGRAD_COMPILE, "%s failed with exit status %d", path, child.exitCode)
                                : fail(ALTGRAD_COMPILE, "%s", words);
  if (!child.output.empty())
    return ALTGRAD_OK;
  if (child.reaped)
    return child.errors.empty()
               ? fail(ALTGRAD_COMPILE, "%s wrote no bundle; why is not known where SIGCHLD is ignored", path)
               : fail(ALTGRAD_COMPILE, "%s", words);
  return fail(ALTGRAD_COMPILE, "%s ended well but wrote no bundle\n%s", path, words);
}

} // namespace

altgrad_status altgrad::runtime::runCompiler(const Compiler &compiler, const std::vector<std::string> &options,
                                             const char *spec, uint64_t size, std::vector<char> &out) {
  std::vector<std::string> arguments = {compiler.path};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--emit=bundle", "-o", "-"});
  if (spec)
    arguments.push_back("-");
  Child child;
  double seconds = timeLimit();
  if (altgrad_status status = runChild(arguments, spec ? spec : "", spec ? size : 0, seconds, mostBundleBytes, child))
    return status;
  if (altgrad_status status = judge(compiler, child, seconds))
    return status;
  out = std::move(child.output);
  return ALTGRAD_OK;
}
