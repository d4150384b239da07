// Compiles a spec in a child process, or takes the result from the cache.
#include "bundle/Bundle.h"
#include "compile/Cache.h"
#include "compile/Child.h"
#include "compile/Compiler.h"
#include "compile/Sha256.h"
#include "Status.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr uint64_t mostSpecBytes = uint64_t(1) << 20;
constexpr size_t mostBundleBytes = size_t(1) << 30;
constexpr size_t mostLoaded = 256;
constexpr double defaultSeconds = 120;

double timeLimit() {
  const char *given = secure_getenv("ALTGRAD_COMPILE_TIMEOUT");
  char *end = nullptr;
  double seconds = given ? strtod(given, &end) : 0;
  bool sound = given && end != given && !*end && seconds > 0 && seconds < 1e6;
  return sound ? seconds : defaultSeconds;
}

altgrad_status splitOptions(const char *options,
                            std::vector<std::string> &out) {
  std::string text = options ? options : "";
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.empty())
      continue;
    if (line.size() < 3 || line.compare(0, 2, "--") != 0)
      return fail(ALTGRAD_INVALID, "option \"%.200s\" does not begin with --",
                  line.c_str());
    for (const char *ours : {"--emit", "--o="})
      if (line.compare(0, strlen(ours), ours) == 0)
        return fail(ALTGRAD_INVALID, "option \"%.200s\" is set by the runtime",
                    line.c_str());
    out.push_back(std::move(line));
  }
  return ALTGRAD_OK;
}

// Each part with its length, so that no two lists of parts give one key.
std::string makeKey(const Compiler &compiler,
                    const std::vector<std::string> &options, const char *spec,
                    uint64_t size) {
  std::string key = "altgrad cache 1\n";
  auto add = [&](const char *name, const std::string &part) {
    key += std::string(name) + " " + std::to_string(part.size()) + "\n" + part +
           "\n";
  };
  add("compiler", compiler.identity);
  for (const std::string &option : options)
    add("option", option);
  add("rules", ruleIdentity(compiler, options));
  add(spec ? "spec" : "no spec", std::string(spec ? spec : "", size));
  return key;
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

altgrad_status runCompiler(const Compiler &compiler,
                           const std::vector<std::string> &options,
                           const char *spec, uint64_t size,
                           std::vector<char> &out) {
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

// Bundles that this process has compiled or read: without a usable directory
// the only cache there is. Never destroyed.
class Loaded {
public:
  static Loaded &instance() {
    static Loaded &only = *new Loaded;
    return only;
  }
  std::shared_ptr<const Bundle> find(const std::string &key) {
    std::lock_guard<std::mutex> held(lock);
    auto found = bundles.find(key);
    return found == bundles.end() ? nullptr : found->second;
  }
  void keep(const std::string &key, std::shared_ptr<const Bundle> bundle) {
    std::lock_guard<std::mutex> held(lock);
    if (bundles.size() >= mostLoaded)
      bundles.clear();
    bundles[key] = std::move(bundle);
  }

private:
  std::mutex lock;
  std::map<std::string, std::shared_ptr<const Bundle>> bundles;
};

altgrad_status compile(const char *spec, uint64_t size, const char *options,
                       const char *given, std::shared_ptr<const Bundle> &out) {
  std::vector<std::string> lines;
  if (altgrad_status status = splitOptions(options, lines))
    return status;
  Compiler compiler;
  if (altgrad_status status = findCompiler(given, compiler))
    return status;
  std::string key = makeKey(compiler, lines, spec, size);
  if ((out = Loaded::instance().find(key)))
    return ALTGRAD_OK;

  Cache cache;
  std::vector<char> bytes;
  // An entry that is whole but does not load is a miss, too.
  if (!cache.find(key, bytes) ||
      Bundle::open(bytes.data(), bytes.size(), "cached bundle", out)) {
    if (altgrad_status status = runCompiler(compiler, lines, spec, size, bytes))
      return status;
    if (altgrad_status status =
            Bundle::open(bytes.data(), bytes.size(), "compiled bundle", out))
      return status;
    cache.keep(key, bytes);
  }
  Loaded::instance().keep(key, out);
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad_compile(const char *spec, uint64_t size,
                               const char *options, const char *compiler,
                               altgrad_bundle **out) {
  if (!out || (!spec && size > 0))
    return fail(ALTGRAD_INVALID, "altgrad_compile: %s is NULL",
                out ? "spec" : "out");
  if (size > mostSpecBytes)
    return fail(ALTGRAD_INVALID, "spec has %llu bytes, more than 1 MiB",
                (unsigned long long)size);
  if (!spec && (!options || !*options))
    return fail(ALTGRAD_INVALID, "altgrad_compile: neither spec nor options");
  return guarded([&]() -> altgrad_status {
    auto handle = std::make_unique<altgrad_bundle>();
    if (altgrad_status status =
            compile(spec, size, options, compiler, handle->shared))
      return status;
    *out = handle.release();
    return ALTGRAD_OK;
  });
}
