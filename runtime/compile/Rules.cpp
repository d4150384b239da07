// Finds the rules of a request as the compiler does: a stock name is a file of the
// installation, a spelling with a separator or ".mlir" at its end is a path, and
// the rule path has the rest.
#include "compile/Rules.h"
#include "bundle/Fields.h"
#include "compile/File.h"
#include "compile/Sha256.h"

#include <algorithm>
#include <cstring>
#include <dirent.h>
#include <memory>

using namespace altgrad::runtime;

namespace {

constexpr size_t mostRuleBytes = size_t(1) << 20;
constexpr char ending[] = ".mlir";

bool takeFront(std::string &text, const char *front) {
  size_t length = strlen(front);
  if (text.compare(0, length, front) != 0)
    return false;
  text.erase(0, length);
  return true;
}

bool endsIn(const std::string &text, const char *end) {
  size_t length = strlen(end);
  return text.size() >= length &&
         text.compare(text.size() - length, length, end) == 0;
}

// "adam{amsgrad}" without its options.
std::string bare(const std::string &spelled) {
  size_t brace = endsIn(spelled, "}") ? spelled.rfind('{') : std::string::npos;
  return spelled.substr(0, brace);
}

// What a line may call a rule. A path may have spaces, so every begin of a set's
// words can be one.
Strings spellings(std::string line) {
  if (takeFront(line, "--rule="))
    return {bare(line)};
  if (!takeFront(line, "--set=") || !takeFront(line, "rule="))
    return {};
  Strings all;
  for (size_t end = line.find(' '); end != std::string::npos;
       end = line.find(' ', end + 1))
    all.push_back(bare(line.substr(0, end)));
  all.push_back(bare(line));
  return all;
}

bool isPath(const std::string &spelled) {
  return spelled.find('/') != std::string::npos || endsIn(spelled, ending);
}

// The digest of a file; "" where there is none that could be a rule.
std::string digestOf(const std::string &path) {
  std::vector<char> bytes;
  if (readFile(path.c_str(), mostRuleBytes, bytes))
    return "";
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hexadecimal(hash.finish());
}

void addFile(const std::string &path, std::string &identity) {
  std::string digest = digestOf(path);
  if (!digest.empty())
    identity += path + " " + digest + "\n";
}

void addFolder(const std::string &folder, std::string &identity) {
  std::unique_ptr<DIR, int (*)(DIR *)> listing(opendir(folder.c_str()),
                                               closedir);
  Strings names;
  while (dirent *item = listing ? readdir(listing.get()) : nullptr)
    if (endsIn(item->d_name, ending))
      names.push_back(item->d_name);
  std::sort(names.begin(), names.end());
  for (const std::string &name : names)
    addFile(folder + "/" + name, identity);
}

// The folders of --rule-path, behind `folders`.
Strings withRulePath(Strings folders, const Strings &options) {
  for (std::string line : options)
    if (takeFront(line, "--rule-path="))
      for (size_t start = 0; start < line.size();) {
        size_t end = std::min(line.find(':', start), line.size());
        folders.push_back(line.substr(start, end - start));
        start = end + 1;
      }
  return folders;
}

} // namespace

std::string altgrad::runtime::folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Strings altgrad::runtime::stockFolders(const std::string &folder) {
  return {folder + "/../templates", folder + "/../../templates",
          folder + "/../share/altgrad/templates"};
}

bool altgrad::runtime::isWithoutRule(const std::string &line) {
  return line.compare(0, 11, "--set=grad=") == 0;
}

bool altgrad::runtime::plainRules(const Strings &options, Strings &names) {
  for (const std::string &line : options) {
    if (line.compare(0, 11, "--rule-path") == 0)
      return false;
    if (line.compare(0, 5, "--set") != 0 && line.compare(0, 6, "--rule") != 0)
      continue;
    if (isWithoutRule(line))
      continue;
    Strings spelled = spellings(line);
    if (spelled.empty() || !isWord(spelled.front()))
      return false;
    names.push_back(spelled.front());
  }
  return true;
}

std::string altgrad::runtime::stockDigest(const Strings &folders,
                                          const std::string &name) {
  for (const std::string &folder : folders) {
    std::string digest = digestOf(folder + "/" + name + ending);
    if (!digest.empty())
      return digest;
  }
  return "";
}

std::string altgrad::runtime::ruleIdentity(const Strings &stock,
                                           const Strings &options,
                                           bool hasText) {
  std::string identity;
  Strings folders = withRulePath(stock, options);
  if (hasText)
    for (const std::string &folder : folders)
      addFolder(folder, identity);
  for (const std::string &line : options)
    for (const std::string &spelled : spellings(line))
      if (isPath(spelled))
        addFile(spelled, identity);
      else if (!hasText)
        for (const std::string &folder : folders)
          addFile(folder + "/" + spelled + ending, identity);
  return identity;
}

void altgrad::runtime::addPart(std::string &key, const char *name,
                               const std::string &part) {
  key += std::string(name) + " " + std::to_string(part.size()) + "\n" + part +
         "\n";
}
