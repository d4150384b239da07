// Builds the bundles of the stock rules, which the runtime uses before it looks for a compiler:
//   stock-bundles ALTGRAD-OPT TEMPLATES REQUESTS FOLDER PTXAS usual|rest
// `usual` empties the folder and builds the lines with a star, with cubins unless PTXAS is empty; `rest` adds the
// other lines. A bundle's key says nothing of its cubins: they are the PTX beside them once more.
#include "Status.h"
#include "files/Cache.h"
#include "compile/Compiler.h"
#include "compile/Prebuilt.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <thread>

using namespace altgrad::runtime;
namespace fs = std::filesystem;

namespace {

// What front ends ask for where parameters lie on the CPU, and on GPUs; the
// former is the line of runtime/python/altgrad/_bundle.py.
const char *const machines[] = {"--target=x86-64-v3,x86-64-v4",
                                "--target=sm_80,sm_90"};

// The lines of one request; its sets are in the order of
// runtime/python/altgrad/_bundle.py.
Strings linesOf(const std::string &rule, const std::string &formats,
                const char *machine, bool clip, const char *scaler) {
  Strings lines;
  std::istringstream each(formats);
  for (std::string format; std::getline(each, format, '+');)
    lines.push_back("--set=rule=" + rule + " param=" + format +
                    " grad=" + format + " states=param step=f32");
  std::sort(lines.begin(), lines.end());
  lines.push_back(machine);
  if (clip)
    lines.push_back("--clip");
  if (*scaler)
    lines.push_back(scaler);
  return lines;
}

// The same for gradients alone, as runtime/python/altgrad/ops/_plan_cache.py writes
// them: of each set "f32", or "bf16>f32" where results go elsewhere.
Strings gradientLines(const std::string &formats, const char *machine,
                      const std::string &flags) {
  Strings lines;
  std::istringstream each(formats), words(flags);
  for (std::string format; std::getline(each, format, '+');) {
    size_t to = format.find('>');
    lines.push_back(
        "--set=grad=" + format.substr(0, to) +
        (to == std::string::npos ? "" : " copy=" + format.substr(to + 1)));
  }
  std::sort(lines.begin(), lines.end());
  lines.push_back(machine);
  for (std::string flag; words >> flag;)
    lines.push_back(flag);
  return lines;
}

void addGradients(const std::string &formats, const std::string &ways,
                  std::vector<Strings> &requests) {
  std::istringstream flags(ways);
  for (std::string way; std::getline(flags, way, '|');) {
    std::istringstream storages(formats);
    for (std::string one; storages >> one;)
      for (const char *machine : machines)
        requests.push_back(gradientLines(one, machine, way));
  }
}

// "adamw/states=bnb8u:256/m=bnb8:256": the words of large tensors; small ones
// have f32 in their place.
std::string blockLine(const std::string &rule, const std::string &format,
                      bool large) {
  std::istringstream words(rule);
  std::string line, word;
  std::getline(words, line, '/');
  line = "--set=rule=" + line + " param=" + format + " grad=" + format + " step=f32";
  while (std::getline(words, word, '/'))
    line += " " + (large ? word : word.substr(0, word.find('=')) + "=f32");
  return line;
}

void addBlocks(const std::string &rule, const std::string &format,
               const char *machine, std::vector<Strings> &requests) {
  std::string large = blockLine(rule, format, true),
              small = blockLine(rule, format, false);
  for (Strings lines : {Strings{large}, Strings{small}, Strings{large, small}})
    for (bool clip : {false, true}) {
      std::sort(lines.begin(), lines.end());
      Strings all = lines;
      all.push_back(machine);
      if (clip)
        all.push_back("--clip");
      requests.push_back(all);
    }
}

// The lines with a star, or those without and the loss scalers' steps.
std::vector<Strings> readRequests(const char *path, bool usual) {
  std::vector<Strings> requests;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if ((line[0] == '*') != usual)
      continue;
    line.erase(0, usual);
    if (line.compare(0, 6, "--set=") == 0)
      for (const char *machine : machines)
        requests.push_back({line, machine});
    size_t colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string::npos)
      continue;
    if (line.compare(colon, 2, "::") == 0) {
      addGradients(line.substr(0, colon), line.substr(colon + 2), requests);
      continue;
    }
    std::istringstream rules(line.substr(colon + 1));
    for (std::string rule; rules >> rule;) {
      std::istringstream storages(line.substr(0, colon));
      for (std::string formats; storages >> formats;)
        for (const char *machine : machines) {
          if (rule.find('/') != std::string::npos) {
            addBlocks(rule, formats, machine, requests);
            continue;
          }
          for (bool clip : {false, true})
            for (const char *scaler : {"", "--scaler", "--loss-scaler=torch"})
              // Training in bfloat16 needs no loss scale.
              if (usual || formats != "bf16" || !*scaler)
                requests.push_back(
                    linesOf(rule, formats, machine, clip, scaler));
        }
    }
  }
  // What an optimizer of somebody else's leaves to be done.
  for (const char *machine : machines)
    if (!usual)
      for (const char *variant : {"torch", "boostr"})
        requests.push_back({machine, std::string("--loss-scaler=") + variant});
  return requests;
}

// Compiles one request and writes its file; says so and gives false if it
// cannot.
bool build(const Compiler &compiler, const std::string &templates,
           const Strings &lines, const Strings &further,
           const fs::path &folder) {
  std::string key = prebuiltKey({templates}, lines);
  std::vector<char> bundle;
  Strings all = lines;
  all.insert(all.end(), further.begin(), further.end());
  if (key.empty() || runCompiler(compiler, all, nullptr, 0, bundle)) {
    fprintf(stderr, "stock-bundles: %s: %s\n", lines[0].c_str(),
            key.empty() ? "not a stock rule" : altgrad_last_error());
    return false;
  }
  std::vector<char> entry = packEntry(key, bundle);
  fs::path path = folder / entryName(key);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(entry.data(), std::streamsize(entry.size()));
  file.close();
  if (!file)
    fprintf(stderr, "stock-bundles: cannot write %s\n", path.c_str());
  return bool(file);
}

bool buildAll(const Compiler &compiler, const std::string &templates,
              const std::vector<Strings> &requests, const Strings &further,
              const fs::path &folder) {
  std::atomic<size_t> next{0};
  std::atomic<bool> good{!requests.empty()};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency());
       ++i)
    threads.emplace_back([&] {
      for (size_t one; good && (one = next++) < requests.size();)
        if (!build(compiler, templates, requests[one], further, folder))
          good = false;
    });
  for (std::thread &thread : threads)
    thread.join();
  return good;
}

} // namespace

int main(int count, char **arguments) {
  const std::string part = count == 7 ? arguments[6] : "";
  const bool usual = part == "usual";
  if (!usual && part != "rest") {
    fprintf(stderr, "stock-bundles ALTGRAD-OPT TEMPLATES REQUESTS FOLDER PTXAS "
                    "usual|rest\n");
    return 2;
  }
  umask(022); // a bundle that a group may change is passed over
  fs::path folder = arguments[4];
  if (usual)
    fs::remove_all(folder);
  fs::create_directories(folder);
  Compiler compiler{arguments[1], ""};
  std::vector<Strings> requests = readRequests(arguments[3], usual);
  Strings further;
  if (usual && *arguments[5])
    further.push_back(std::string("--ptxas=") + arguments[5]);
  if (!buildAll(compiler, arguments[2], requests, further, folder))
    return 1;
  printf("%zu bundles of stock rules, %s cubins\n", requests.size(),
         further.empty() ? "without" : "with");
  return 0;
}
