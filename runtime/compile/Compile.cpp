// Compiles a spec in a child process, or takes the result from what was built with
// the library or from the cache.
#include "bundle/Bundle.h"
#include "compile/Cache.h"
#include "compile/Compiler.h"
#include "compile/Prebuilt.h"
#include "compile/Rules.h"
#include "Forks.h"
#include "Status.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace altgrad::runtime;

namespace {

constexpr uint64_t mostSpecBytes = uint64_t(1) << 20;
constexpr size_t mostLoaded = 256;

// A value stands in the line of its option: what takes the next line as its value
// would hide a rule from the key.
altgrad_status checkOption(const std::string &line) {
  const char *text = line.c_str();
  if (line.size() < 3 || line.compare(0, 2, "--") != 0)
    return fail(ALTGRAD_INVALID, "option \"%.200s\" does not begin with --",
                text);
  for (unsigned char c : line)
    if (c < ' ' || c == 127)
      return fail(ALTGRAD_INVALID,
                  "option \"%.200s\" holds a control character, byte %d",
                  text, c);
  std::string name = line.substr(0, line.find('='));
  for (const char *ours : {"--emit", "--o"})
    if (name == ours)
      return fail(ALTGRAD_INVALID, "option \"%.200s\" is set by the runtime",
                  text);
  if (name == "--ptxas")
    return fail(ALTGRAD_INVALID,
                "option \"%.200s\" is for bundles that are built ahead; the "
                "runtime keeps what the driver makes of PTX",
                text);
  for (const char *valued :
       {"--rule", "--set", "--storage", "--rule-path", "--target"})
    if (line == valued)
      return fail(ALTGRAD_INVALID, "option %s has no value: write %s=...", text,
                  text);
  return ALTGRAD_OK;
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
    if (altgrad_status status = checkOption(line))
      return status;
    out.push_back(std::move(line));
  }
  return ALTGRAD_OK;
}

std::string makeKey(const Compiler &compiler,
                    const std::vector<std::string> &options, const char *spec,
                    uint64_t size) {
  std::string key = "altgrad cache 2\n";
  addPart(key, "version", altgrad_version());
  addPart(key, "compiler", compiler.identity);
  for (const std::string &option : options)
    addPart(key, "option", option);
  addPart(
      key, "rules",
      ruleIdentity(stockFolders(folderOf(compiler.path)), options, spec));
  addPart(key, spec ? "spec" : "no spec", std::string(spec ? spec : "", size));
  return key;
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
    std::lock_guard<std::mutex> held(ForkedLock<Loaded>::of());
    auto found = bundles.find(key);
    return found == bundles.end() ? nullptr : found->second;
  }
  void keep(const std::string &key, std::shared_ptr<const Bundle> bundle) {
    std::lock_guard<std::mutex> held(ForkedLock<Loaded>::of());
    if (bundles.size() >= mostLoaded)
      bundles.clear();
    bundles[key] = std::move(bundle);
  }

private:
  std::map<std::string, std::shared_ptr<const Bundle>> bundles;
};

// Answers a request for stock rules without any compiler.
bool findStock(const std::vector<std::string> &lines,
               std::shared_ptr<const Bundle> &out) {
  std::string folder = libraryFolder();
  std::string key =
      folder.empty() ? "" : prebuiltKey(templateFolders(folder), lines);
  if (key.empty())
    return false;
  if ((out = Loaded::instance().find(key)))
    return true;
  std::vector<char> bytes;
  if (!findPrebuilt(folder, key, bytes) ||
      Bundle::open(bytes.data(), bytes.size(), "prebuilt bundle", out))
    return false;
  Loaded::instance().keep(key, out);
  return true;
}

altgrad_status compile(const char *spec, uint64_t size, const char *options,
                       const char *given, std::shared_ptr<const Bundle> &out) {
  std::vector<std::string> lines;
  if (altgrad_status status = splitOptions(options, lines))
    return status;
  if (!spec && findStock(lines, out))
    return ALTGRAD_OK;
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
