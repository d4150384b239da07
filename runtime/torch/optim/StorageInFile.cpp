// What the states of a file are, which codes alone do not say: its line of
// storage, by the keys of the states.
#include "core/altgrad_storage.h"
#include "optim/Binding.h"
#include "tensors/Errors.h"

#include <torch/serialize/archive.h>

#include <sstream>

using namespace altgrad::optim;

// A line of storage by the keys of states, its words in full.
static std::string describe(const std::string &storage, const RuleSpec &spec) {
  std::string line;
  std::istringstream stream(altgrad_core_in_full(storage.c_str()));
  for (std::string word; stream >> word;) {
    auto key = spec.state_names().find(word.substr(0, word.find('=')));
    if (key != spec.state_names().end())
      word.replace(0, key->first.size(), key->second);
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

std::set<std::string> Binding::keysInFile() const {
  std::set<std::string> keys{"master", "copy"};
  for (const Set &set : first->sets)
    for (const Stream &stream : entries(set.states))
      if (stream.role == ALTGRAD_ROLE_STATE)
        keys.insert(stream.state);
  return keys;
}

std::string Binding::storageLine() const { return describe(spec.storage(), spec); }

void Binding::saveStorage(torch::serialize::OutputArchive &archive) const {
  const std::string line = storageLine();
  if (!line.empty())
    archive.write("storage", c10::IValue(line));
}

// A file of torch's, or one that is older, says nothing.
void Binding::checkStorage(torch::serialize::InputArchive &archive) const {
  c10::IValue given;
  if (transcodes || !archive.try_read("storage", given))
    return;
  TORCH_CHECK(given.isString(), "altgrad: the file's storage is ", given.tagKind(), ", not a line of words");
  const std::string file = describe(given.toStringRef(), spec), own = storageLine();
  for (const std::string &key : keysInFile())
    TORCH_CHECK(!isTrue(altgrad_core_formats_differ(file.c_str(), own.c_str(), key.c_str(), /*small=*/false)),
                "altgrad: the file's states are stored as \"", given.toStringRef(), "\", and this optimizer's as \"",
                own, "\": make the optimizer with the storage that its states have");
}
