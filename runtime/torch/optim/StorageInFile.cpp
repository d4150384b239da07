// What the states of a file are, which codes alone do not say: its line of
// storage, by the keys of the states.
#include "core/altgrad_storage.h"
#include "optim/Binding.h"
#include "tensors/Errors.h"

#include <torch/serialize/archive.h>

using namespace altgrad::optim;

std::set<std::string> Binding::keysInFile() const {
  std::set<std::string> keys{"master", "copy"};
  for (const Set &set : first->sets)
    for (const Stream &stream : entries(set.states))
      if (stream.role == ALTGRAD_ROLE_STATE)
        keys.insert(stream.state);
  return keys;
}

// The optimizer's line and a file's are compared by the keys of states.
static std::string byKeys(const std::string &line, const RuleSpec &spec) {
  return altgrad_core_line_by_keys(line.c_str(), keysOf(spec).c_str());
}

std::string Binding::storageLine() const { return byKeys(spec.storage(), spec); }

void Binding::saveStorage(torch::serialize::OutputArchive &archive) const {
  const std::string line = storageLine();
  if (!line.empty())
    archive.write("storage", c10::IValue(line));
}

// From how many elements on a state has blocks, if its word has any.
static int32_t minSizeOf(const std::string &line, const std::string &key) {
  const std::string own = wordOf(line, key), word = own.empty() && key != "copy" ? wordOf(line, "states") : own;
  altgrad_core_word of;
  checkTable(altgrad_core_word_of(word.c_str(), &of));
  return of.min_size;
}

// A file of torch's, or one that is older, says nothing.
void Binding::checkStorage(torch::serialize::InputArchive &archive) const {
  c10::IValue given;
  if (transcodes || !archive.try_read("storage", given))
    return;
  ALTGRAD_CHECK(given.isString(), "altgrad: the file's storage is ", given.tagKind(), ", not a storage line");
  const std::string file = byKeys(given.toStringRef(), spec), own = storageLine();
  for (const std::string &key : keysInFile())
    ALTGRAD_CHECK(!isTrue(altgrad_core_formats_differ(file.c_str(), own.c_str(), key.c_str(), /*plain=*/-1)) &&
                      minSizeOf(file, key) == minSizeOf(own, key),
                  "altgrad: the file's states are stored as \"", given.toStringRef(), "\", and this optimizer's as \"",
                  own, "\": make the optimizer with the storage that its states have");
}
