// Finds the rules of a request where the compiler does.
#include "compile/Rules.h"
#include "altgrad/words.h"
#include "files/File.h"
#include "files/Sha256.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <dirent.h>
#include <map>
#include <memory>
#include <set>

using namespace altgrad::runtime;

namespace {

constexpr size_t mostRuleBytes = size_t(1) << 20;
// How the compiler stores what no word speaks of.
constexpr std::pair<const char *, const char *> usually[] = {
    {"param", "f32"}, {"grad", "f32"}, {"states", "f32"}, {"step", "i64"}};

bool takeFront(std::string &text, const char *front) {
  size_t length = strlen(front);
  if (text.compare(0, length, front) != 0)
    return false;
  text.erase(0, length);
  return true;
}

bool endsIn(const std::string &text, const char *end) {
  size_t length = strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

bool isWord(const std::string &name) {
  auto isPart = [](unsigned char c) { return c == '_' || (c < 128 && std::isalnum(c)); };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), isPart);
}

// "adam{amsgrad}" without its options.
std::string bare(const std::string &spelled) {
  size_t brace = endsIn(spelled, "}") ? spelled.rfind('{') : std::string::npos;
  return spelled.substr(0, brace);
}

// "{b,a}" with its words in order.
std::string inOrder(std::string_view options) {
  const std::vector<std::string_view> words = altgrad::split(options.substr(1, options.size() - 2), ',');
  std::string all;
  for (std::string_view word : std::set<std::string_view>(words.begin(), words.end()))
    all += (all.empty() ? "{" : ",") + std::string(word);
  return all + "}";
}

// A set of a named rule: its options and words in order, short names of formats in full,
// without the words that say what holds without them. Any other line as it is.
std::string inOneForm(const std::string &line) {
  std::string text = line;
  std::map<std::string, std::string> formats;
  if (!takeFront(text, "--set=rule="))
    return line;
  const std::string rule = text.substr(0, text.find(' ')), name = bare(rule);
  if (!isWord(name))
    return line;
  for (const auto &[stream, word] : altgrad::wordsIn(std::string_view(text).substr(rule.size())))
    if (word.empty() || !formats.emplace(stream, altgrad::inFull(word)).second)
      return line; // the compiler says why
  const std::string param = formats.count("param") ? formats["param"] : "f32";
  auto states = formats.find("states");
  if (states != formats.end() && states->second == "param" && isWord(param))
    states->second = param;
  for (auto [stream, usual] : usually)
    if (auto found = formats.find(stream); found != formats.end() && found->second == usual)
      formats.erase(found);
  std::string form = "--set=rule=" + name;
  if (rule != name)
    form += inOrder(rule.substr(name.size()));
  for (const auto &[stream, format] : formats)
    form += " " + stream + "=" + format;
  return form;
}

// What a line may call a rule. A path may have spaces, so every begin of a set's
// words can be one.
Strings spellings(std::string line) {
  if (takeFront(line, "--rule="))
    return {bare(line)};
  if (!takeFront(line, "--set=") || !takeFront(line, "rule="))
    return {};
  Strings all;
  for (size_t end = line.find(' '); end != std::string::npos; end = line.find(' ', end + 1))
    all.push_back(bare(line.substr(0, end)));
  all.push_back(bare(line));
  return all;
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

// The names of the rules in a folder.
Strings listed(const std::string &folder) {
  std::unique_ptr<DIR, int (*)(DIR *)> listing(opendir(folder.c_str()), closedir);
  Strings names;
  while (dirent *item = listing ? readdir(listing.get()) : nullptr)
    if (std::string name = item->d_name; endsIn(name, altgrad::ruleEnding))
      names.push_back(name.substr(0, name.size() - strlen(altgrad::ruleEnding)));
  return names;
}

} // namespace

std::string altgrad::runtime::folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Strings altgrad::runtime::canonical(const Strings &options) {
  Strings sets, rest;
  for (const std::string &line : options)
    (line.compare(0, 6, "--set=") == 0 ? sets : rest).push_back(inOneForm(line));
  std::sort(rest.begin(), rest.end());
  sets.insert(sets.end(), rest.begin(), rest.end());
  return sets;
}

bool altgrad::runtime::isWithoutRule(const std::string &line) { return line.compare(0, 11, "--set=grad=") == 0; }

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

std::string altgrad::runtime::stockDigest(const Strings &folders, const std::string &name) {
  for (const std::string &folder : folders) {
    std::string digest = digestOf(ruleFile(folder, name));
    if (!digest.empty())
      return digest;
  }
  return "";
}

std::string altgrad::runtime::ruleIdentity(const Strings &stock, const Strings &options, bool hasText) {
  Strings folders = stock;
  for (std::string line : options)
    if (takeFront(line, "--rule-path="))
      addRulePath(folders, line);
  std::set<std::string> names; // in an order that no folder has
  if (hasText)
    for (const std::string &folder : folders)
      for (const std::string &name : listed(folder))
        names.insert(name);
  for (const std::string &line : options)
    for (const std::string &spelled : spellings(line))
      names.insert(spelled);
  std::string identity;
  for (const std::string &name : names) {
    std::string digest = isRuleFile(name) ? digestOf(name) : stockDigest(folders, name);
    if (!digest.empty())
      identity += name + " " + digest + "\n";
  }
  return identity;
}
