// What the states of a file are, which codes alone do not say: its line of
// storage, by the keys of the states.
#include "optim/Binding.h"

#include <torch/serialize/archive.h>

#include <algorithm>
#include <sstream>

using namespace altgrad::optim;

// Keys of states and what follows the '=', in the order of the line.
using Words = std::vector<std::pair<std::string, std::string>>;

static Words wordsOf(const std::string &storage, const RuleSpec &spec) {
  Words words;
  std::istringstream stream(storage);
  for (std::string word; stream >> word;) {
    word = inFull(word);
    const size_t at = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, at);
    auto key = spec.state_names().find(name);
    words.emplace_back(key == spec.state_names().end() ? name : key->second,
                       at == word.size() ? "" : word.substr(at + 1));
  }
  return words;
}

static std::string inWords(const Words &words) {
  std::string line;
  for (auto &[key, word] : words)
    line += (line.empty() ? "" : " ") + key + "=" + word;
  return line;
}

static const std::string *find(const Words &words, const std::string &key) {
  for (auto &[name, word] : words)
    if (name == key)
      return &word;
  return nullptr;
}

// What other bits would be other numbers by; "" where the type in torch says
// it.
static std::string layoutOf(const Words &words, const std::string &key) {
  const std::string *word = find(words, key);
  if (!word && key != "master" && key != "copy")
    word = find(words, "states");
  std::string stored = word ? word->substr(0, word->find(',')) : "";
  for (const char *plain : {"", "param", "f32", "bf16", "f16", "ocp.e4m3fn", "ocp.e5m2"})
    if (stored == plain)
      return "";
  // Codes of bent numbers.
  for (const char *bent : {",softsign", ",sqrt"})
    if (word->find(bent) != std::string::npos)
      stored += bent;
  return stored;
}

std::set<std::string> Binding::describedKeys() const {
  std::set<std::string> keys{"master", "copy"};
  const std::vector<Keys> own = findKeys(*first);
  for (size_t set = 0; set < own.size(); ++set)
    for (size_t i = 0; i < own[set].kept.size(); ++i)
      if (first->sets[set].kept[i].role == ALTGRAD_ROLE_STATE)
        keys.insert(own[set].kept[i]);
  return keys;
}

void Binding::saveStorage(torch::serialize::OutputArchive &archive) const {
  const std::string line = inWords(wordsOf(spec.storage(), spec));
  if (!line.empty())
    archive.write("storage", c10::IValue(line));
}

// A file of torch's, or one that is older, says nothing.
void Binding::checkStorage(torch::serialize::InputArchive &archive) const {
  c10::IValue given;
  if (!archive.try_read("storage", given))
    return;
  TORCH_CHECK(given.isString(), "altgrad: the file's storage is ", given.tagKind(), ", not a line of words");
  const Words file = wordsOf(given.toStringRef(), spec), own = wordsOf(spec.storage(), spec);
  for (const std::string &key : describedKeys()) {
    // One that the file lacks begins anew, and nobody reads a copy that is too
    // many.
    const bool begins = (key == "master" || key == "copy") && !find(file, key);
    const bool unread = key == "copy" && !find(own, key);
    // Without their master parameters go on from numbers that are rounded.
    const bool left = key == "master" && find(file, key) && !find(own, key);
    TORCH_CHECK(begins || unread || (!left && layoutOf(file, key) == layoutOf(own, key)),
                "altgrad: the file's states are stored as \"", given.toStringRef(), "\", and this optimizer's as \"",
                inWords(own), "\": make the optimizer with the storage that its states have");
  }
}
