// Reads and checks a bundle's manifest.
#include "bundle/Manifest.h"
#include "altgrad/bundle.h"

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

using namespace altgrad::runtime;
using nlohmann::json;

namespace {

// Limits that no real step comes near and that keep every product of counts
// within 64 bits.
constexpr int64_t mostWords = 4096;
constexpr int64_t mostEntries = 4096;

[[noreturn]] void reject(const std::string &place, const std::string &why) {
  throw std::runtime_error(place + " " + why);
}

const json &member(const json &object, const char *key,
                   const std::string &place) {
  if (!object.is_object())
    reject(place, "is not an object");
  auto found = object.find(key);
  if (found == object.end())
    reject(place, std::string("has no \"") + key + "\"");
  return *found;
}

int64_t integer(const json &object, const char *key, const std::string &place,
                int64_t least, int64_t most) {
  const json &value = member(object, key, place);
  // A JSON number above 2^63 is "unsigned"; get<int64_t> would wrap it.
  bool fits = value.is_number_integer() &&
              !(value.is_number_unsigned() &&
                value.get<uint64_t>() > uint64_t(INT64_MAX));
  int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < least || number > most)
    reject(place + "." + key, "is " + value.dump() + ", not in [" +
                                  std::to_string(least) + ", " +
                                  std::to_string(most) + "]");
  return number;
}

std::string text(const json &object, const char *key,
                 const std::string &place) {
  const json &value = member(object, key, place);
  if (!value.is_string())
    reject(place + "." + key, "is not a string");
  return value.get<std::string>();
}

const json &list(const json &object, const char *key,
                 const std::string &place) {
  const json &value = member(object, key, place);
  if (!value.is_array() || value.size() > size_t(mostEntries))
    reject(place + "." + key, "is not a list of at most 4096 entries");
  return value;
}

void checkNumber(const json &object, const char *key,
                 const std::string &place) {
  if (!member(object, key, place).is_number())
    reject(place + "." + key, "is not a number");
}

bool isWord(const std::string &name, const char *extra) {
  if (name.empty() || name.size() > 128 || (name[0] >= '0' && name[0] <= '9'))
    return false;
  for (char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
        !(c >= '0' && c <= '9') && c != '_' && !(*extra && c == *extra))
      return false;
  return true;
}

std::string word(const json &object, const char *key, const std::string &place,
                 const char *extra = "") {
  std::string name = text(object, key, place);
  if (!isWord(name, extra))
    reject(place + "." + key, "is not a name: \"" + name.substr(0, 64) + "\"");
  return name;
}

template <typename Value, size_t Count>
Value choice(const json &object, const char *key, const std::string &place,
             const std::pair<const char *, Value> (&choices)[Count]) {
  std::string given = text(object, key, place);
  for (const auto &[name, value] : choices)
    if (given == name)
      return value;
  reject(place + "." + key, "is \"" + given.substr(0, 64) + "\"");
}

constexpr std::pair<const char *, Access> accesses[] = {
    {"in", Access::In}, {"out", Access::Out}, {"inout", Access::InOut}};
constexpr std::pair<const char *, Scope> scopes[] = {
    {"step", Scope::Step}, {"group", Scope::Group}, {"tensor", Scope::Tensor}};
constexpr std::pair<const char *, Domain> domains[] = {
    {"chunks", Domain::Chunks}, {"rows", Domain::Rows}, {"once", Domain::Once}};
constexpr std::pair<const char *, int64_t> types[] = {
    {"f64", 8}, {"i64", 8}, {"f32", 4}, {"i32", 4}, {"i1", 1}};

// Hands out each slot of a table once.
class Slots {
public:
  Slots(const char *table, int64_t size) : table(table), size(size) {}
  void take(int64_t slot, const std::string &place) {
    if (slot >= size)
      reject(place + ".slot", "is " + std::to_string(slot) + ", but " + table +
                                  " has " + std::to_string(size));
    if (!taken.insert(slot).second)
      reject(place + ".slot", "is " + std::to_string(slot) + ", taken before");
  }

private:
  const char *table;
  int64_t size;
  std::set<int64_t> taken;
};

class Reader {
public:
  explicit Reader(const json &root) : root(root) {}
  Manifest read();

private:
  void readTargets(const char *key, std::vector<std::string> &out);
  void readStreams();
  void readScalars();
  void readPhases();
  void takeName(const std::string &name, const std::string &place) {
    if (!names.insert(name).second)
      reject(place + ".name", "is \"" + name + "\", taken before");
  }

  const json &root;
  Manifest manifest{};
  std::set<std::string> names;
  Slots rowSlots{"a row", 0}, inputSlots{"inputs", 0};
};

void Reader::readTargets(const char *key, std::vector<std::string> &out) {
  for (const json &entry : list(root, key, "manifest")) {
    std::string place = std::string("manifest.") + key;
    if (!entry.is_string() || !isWord(entry.get<std::string>(), ""))
      reject(place, "names a target " + entry.dump());
    out.push_back(entry.get<std::string>());
  }
}

void Reader::readStreams() {
  size_t index = 0;
  for (const json &entry : list(root, "streams", "manifest")) {
    std::string place = "streams[" + std::to_string(index++) + "]";
    Stream stream;
    stream.name = word(entry, "name", place, ".");
    stream.access = choice(entry, "access", place, accesses);
    stream.bytes = integer(entry, "bytes", place, 1, 8);
    if (stream.bytes & (stream.bytes - 1))
      reject(place + ".bytes", "is not a power of two");
    stream.slot = integer(entry, "slot", place, 0, mostWords);
    stream.set = integer(entry, "set", place, 0, manifest.sets - 1);
    text(entry, "role", place);
    text(entry, "format", place);
    takeName(stream.name, place);
    (stream.access == Access::In ? inputSlots : rowSlots)
        .take(stream.slot, place);
    manifest.streams.push_back(std::move(stream));
  }
}

void Reader::readScalars() {
  Slots groupSlots("a group", manifest.groupScalars);
  Slots stepSlots("scalars", manifest.stepScalars);
  size_t index = 0;
  for (const json &entry : list(root, "scalars", "manifest")) {
    std::string place = "scalars[" + std::to_string(index++) + "]";
    Scalar scalar;
    scalar.name = word(entry, "name", place, ".");
    scalar.scope = choice(entry, "scope", place, scopes);
    scalar.bytes = choice(entry, "type", place, types);
    scalar.slot = integer(entry, "slot", place, 0, mostWords);
    choice(entry, "access", place, accesses);
    text(entry, "role", place);
    const json &given = member(entry, "default", place);
    if (!given.is_null() && !given.is_number() && !given.is_boolean())
      reject(place + ".default", "is neither null nor a number");
    takeName(scalar.name, place);
    Slots &slots = scalar.scope == Scope::Step    ? stepSlots
                   : scalar.scope == Scope::Group ? groupSlots
                                                  : rowSlots;
    slots.take(scalar.slot, place);
    manifest.scalars.push_back(std::move(scalar));
  }
}

void Reader::readPhases() {
  size_t index = 0;
  for (const json &entry : list(root, "phases", "manifest")) {
    std::string place = "phases[" + std::to_string(index++) + "]";
    Phase phase;
    phase.name = text(entry, "name", place);
    phase.symbol = word(entry, "symbol", place);
    phase.domain = choice(entry, "domain", place, domains);
    bool all = member(entry, "set", place).is_null();
    phase.set = all ? -1 : integer(entry, "set", place, 0, manifest.sets - 1);
    phase.perBlock = integer(entry, "per_block", place, 1, 1 << 16);
    checkNumber(entry, "read", place);
    checkNumber(entry, "written", place);
    manifest.phases.push_back(std::move(phase));
  }
}

Manifest Reader::read() {
  const std::string top = "manifest";
  int64_t version = integer(root, "altgrad", top, 0, INT32_MAX);
  if (version != 1)
    reject("manifest.altgrad", "is " + std::to_string(version) + ", not 1");
  text(root, "step", top);
  text(root, "producer", top);
  manifest.sets = integer(root, "sets", top, 1, mostEntries);
  manifest.rowWords =
      integer(root, "row_words", top, ALTGRAD_ROW_HEADER, mostWords);
  manifest.inputs = integer(root, "inputs", top, 0, mostWords);
  manifest.groupScalars = integer(root, "group_scalars", top, 0, mostWords);
  manifest.stepScalars = integer(root, "step_scalars", top, 0, mostWords);
  const json &space = member(root, "workspace", top);
  const std::string place = "manifest.workspace";
  manifest.workspaceStepWords = integer(space, "step_words", place, 0, 1 << 24);
  manifest.workspaceRowWords = integer(space, "row_words", place, 0, mostWords);
  manifest.workspaceChunkWords =
      integer(space, "chunk_words", place, 0, mostWords);
  manifest.spills = integer(space, "spills", place, 0, 256);
  rowSlots = Slots("a row", manifest.rowWords - ALTGRAD_ROW_HEADER);
  inputSlots = Slots("inputs", manifest.inputs);
  readTargets("host", manifest.host);
  readTargets("ptx", manifest.ptx);
  readStreams();
  readScalars();
  readPhases();
  return std::move(manifest);
}

} // namespace

Manifest altgrad::runtime::parseManifest(const char *text, size_t size) {
  json root = json::parse(text, text + size);
  return Reader(root).read();
}
