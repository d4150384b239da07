// Compiles a spec in a child process, or takes the result from what was built with
// the library or from the cache.
#include "bundle/Bundle.h"
#include "files/Cache.h"
#include "compile/Child.h"
#include "compile/Compiler.h"
#include "compile/Prebuilt.h"
#include "compile/Rules.h"
#include "ForkSafety.h"
#include "Status.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr uint64_t mostSpecBytes = uint64_t(1) << 20;
constexpr size_t mostLoaded = 256;

// A value stands in the line of its option: what takes the next line as its value
// would hide a rule from the key.
altgrad_status checkOption(const std::string &line) {
  const char *text = line.c_str();
  if (line.size() < 3 || line.compare(0, 2, "--") != 0)
    return fail(ALTGRAD_INVALID, "option \"%.200s\" does not begin with --", text);
  for (unsigned char c : line)
    if (c < ' ' || c == 127)
      return fail(ALTGRAD_INVALID, "option \"%.200s\" holds a control character, byte %d", text, c);
  std::string name = line.substr(0, line.find('='));
  for (const char *reserved : {"--emit", "--o"})
    if (name == reserved)
      return fail(ALTGRAD_INVALID, "option \"%.200s\" is set by the runtime", text);
  if (name == "--ptxas")
    return fail(ALTGRAD_INVALID,
                "option \"%.200s\" is for bundles that are built ahead; the "
                "runtime keeps what the driver makes of PTX",
                text);
  for (const char *valued : {"--rule", "--set", "--storage", "--rule-path", "--target"})
    if (line == valued)
      return fail(ALTGRAD_INVALID, "option %s has no value: write %s=...", text, text);
  return ALTGRAD_OK;
}

altgrad_status splitOptions(const char *options, std::vector<std::string> &out) {
  std::string text = options ? options : "";
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.empty())
      continue;
    if (altgrad_status status = checkOption(line))
      return status;
    out.push_back(std::move(line));
  }
  return ALTGRAD_OK;
}

std::string makeKey(const Compiler &compiler, const std::vector<std::string> &options, const char *spec,
                    uint64_t size) {
  std::string key = "altgrad cache 3\n";
  addPart(key, "version", altgrad_version());
  addPart(key, "compiler", compiler.identity);
  for (const std::string &option : canonical(options))
    if (option.rfind("--rule-path=", 0) != 0) // its rules are told, not its folders
      addPart(key, "option", option);
  addPart(key, "rules", ruleIdentity(altgrad::stockFolders(folderOf(compiler.path)), options, spec));
  addPart(key, spec ? "spec" : "no spec", std::string(spec ? spec : "", size));
  return key;
}

// Bundles that this process has compiled or read: without a usable directory the only
// cache there is. One thread makes the bundle of a key and the others wait for it.
// Never destroyed.
class Loaded {
public:
  template <typename Make>
  static altgrad_status get(const std::string &key, std::shared_ptr<const Bundle> &out, Make make) {
    static Loaded &only = *new Loaded;
    while (!only.take(key, out)) {
      if (interrupted())
        return fail(ALTGRAD_INTERRUPTED, "waiting for the compiler was interrupted");
      timespec pause = {0, 5'000'000};
      nanosleep(&pause, nullptr);
    }
    if (out)
      return ALTGRAD_OK;
    Maker maker{only, key};
    altgrad_status status = make();
    if (status == ALTGRAD_OK)
      maker.keep(out);
    return status;
  }

private:
  // Gives the key back at the end of its scope.
  struct Maker {
    ~Maker() {
      std::lock_guard<std::mutex> held(ForkSafeLock<Loaded>::of());
      of.makers.erase(key);
    }
    void keep(std::shared_ptr<const Bundle> bundle) {
      std::lock_guard<std::mutex> held(ForkSafeLock<Loaded>::of());
      if (of.bundles.size() >= mostLoaded)
        of.bundles.clear();
      of.bundles[key] = std::move(bundle);
    }
    Loaded &of;
    const std::string &key;
  };

  // Whether the bundle is there or it is up to this thread to make it. A thread that was
  // making it when its process forked makes nothing in the child.
  bool take(const std::string &key, std::shared_ptr<const Bundle> &out) {
    std::lock_guard<std::mutex> held(ForkSafeLock<Loaded>::of());
    if (auto found = bundles.find(key); found != bundles.end()) {
      out = found->second;
      return true;
    }
    pid_t &maker = makers[key];
    return maker != getpid() && (maker = getpid());
  }

  std::map<std::string, std::shared_ptr<const Bundle>> bundles;
  std::map<std::string, pid_t> makers;
};

// Answers a request for stock rules without any compiler.
altgrad_status findStock(const std::vector<std::string> &lines, std::shared_ptr<const Bundle> &out) {
  std::string folder = libraryFolder();
  std::string key = folder.empty() ? "" : prebuiltKey(templateFolders(folder), lines);
  if (key.empty())
    return ALTGRAD_NOT_FOUND;
  return Loaded::get(key, out, [&] {
    std::vector<char> bytes;
    if (!findPrebuilt(folder, key, bytes))
      return altgrad_status(ALTGRAD_NOT_FOUND);
    altgrad_status status = Bundle::open(bytes.data(), bytes.size(), "prebuilt bundle", out);
    if (status)
      warnOnce(Warning::Prebuilt, "%s; it is passed over", altgrad_last_error());
    return status;
  });
}

altgrad_status compile(const char *spec, uint64_t size, const char *options, const char *given,
                       std::shared_ptr<const Bundle> &out) {
  std::vector<std::string> lines;
  if (altgrad_status status = splitOptions(options, lines))
    return status;
  altgrad_status stock = spec ? ALTGRAD_NOT_FOUND : findStock(lines, out);
  if (stock == ALTGRAD_OK || stock == ALTGRAD_INTERRUPTED)
    return stock;
  Compiler compiler;
  if (altgrad_status status = findCompiler(given, compiler))
    return status;
  std::string key = makeKey(compiler, lines, spec, size);
  return Loaded::get(key, out, [&] {
    Cache cache;
    std::vector<char> bytes;
    // An entry that is whole but does not load is a miss, too.
    if (cache.find(key, bytes) && !Bundle::open(bytes.data(), bytes.size(), "cached bundle", out))
      return altgrad_status(ALTGRAD_OK);
    if (altgrad_status status = runCompiler(compiler, lines, spec, size, bytes))
      return status;
    altgrad_status status = Bundle::open(bytes.data(), bytes.size(), "compiled bundle", out);
    if (status == ALTGRAD_OK)
      cache.keep(key, bytes);
    return status;
  });
}

} // namespace

altgrad_status altgrad_compile(const char *spec, uint64_t size, const char *options, const char *compiler,
                               altgrad_bundle **out) {
  if (!out || (!spec && size > 0))
    return fail(ALTGRAD_INVALID, "altgrad_compile: %s is NULL", out ? "spec" : "out");
  if (size > mostSpecBytes)
    return fail(ALTGRAD_INVALID, "spec has %llu bytes, more than 1 MiB", (unsigned long long)size);
  if (!spec && (!options || !*options))
    return fail(ALTGRAD_INVALID, "altgrad_compile: neither spec nor options");
  return guarded([&]() -> altgrad_status {
    auto handle = std::make_unique<altgrad_bundle>();
    if (altgrad_status status = compile(spec, size, options, compiler, handle->shared))
      return status;
    *out = handle.release();
    return ALTGRAD_OK;
  });
}
