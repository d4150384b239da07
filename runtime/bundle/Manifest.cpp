// Reads and checks a bundle's manifest.
#include "bundle/Manifest.h"
#include "altgrad/altgrad.h"
#include "bundle/Fields.h"

#include <set>
#include <stdexcept>
#include <tuple>

using namespace altgrad::runtime;
using nlohmann::json;

namespace {

// Limits that no real step comes near and that keep every product of counts
// within 64 bits.
constexpr int64_t mostWords = 4096, mostStepWords = 1 << 24;
constexpr int64_t mostSpills = 256, mostPerBlock = 1 << 16;
constexpr double mostTraffic = 1 << 20; // bytes per element
constexpr double mostBound = 1 << 20;   // of a hyper-parameter

using Choice = std::pair<const char *, int32_t>;
constexpr Choice accesses[] = {
    {"in", ALTGRAD_IN}, {"out", ALTGRAD_OUT}, {"inout", ALTGRAD_INOUT}};
constexpr Choice halves[] = {{"none", ALTGRAD_UNPACKED},
                             {"low", ALTGRAD_EVEN_LOW},
                             {"high", ALTGRAD_EVEN_HIGH}};
constexpr Choice scopes[] = {{"step", ALTGRAD_PER_STEP},
                             {"group", ALTGRAD_PER_GROUP},
                             {"tensor", ALTGRAD_PER_TENSOR}};
constexpr Choice reductions[] = {{"add", ALTGRAD_ADD},
                                 {"sumsq", ALTGRAD_SUMSQ},
                                 {"max", ALTGRAD_MAX},
                                 {"and", ALTGRAD_AND}};
constexpr Choice roles[] = {{"none", ALTGRAD_ROLE_NONE},
#define ALTGRAD_ROLE(word, WORD) {#word, ALTGRAD_ROLE_##WORD},
                            ALTGRAD_ROLES(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};
constexpr Choice types[] = {{"f64", ALTGRAD_F64},
                            {"i64", ALTGRAD_I64},
                            {"f32", ALTGRAD_F32},
                            {"i32", ALTGRAD_I32},
                            {"i1", ALTGRAD_I1}};
constexpr int64_t typeBytes[] = {8, 8, 4, 4, 1}; // by ALTGRAD_F64 and so on
constexpr Choice kinds[] = {{"sweep", ALTGRAD_SWEEP},
                            {"fold", ALTGRAD_FOLD},
                            {"total", ALTGRAD_TOTAL},
                            {"scalars", ALTGRAD_SCALARS},
                            {"matrix", ALTGRAD_MATRIX}};
constexpr std::pair<const char *, Domain> domains[] = {
    {"chunks", Domain::Chunks}, {"rows", Domain::Rows}, {"once", Domain::Once}};

bool fits(int32_t kind, Domain domain) {
  switch (kind) {
  case ALTGRAD_SWEEP:
    return domain == Domain::Chunks;
  case ALTGRAD_FOLD:
  case ALTGRAD_MATRIX:
    return domain == Domain::Rows;
  case ALTGRAD_TOTAL:
    return domain == Domain::Once;
  default:
    return domain != Domain::Chunks;
  }
}

// Hands out each slot of a table once in each set; what is of every set (-1)
// meets nothing else.
class Slots {
public:
  Slots(const char *table, int64_t size) : table(table), size(size) {}
  void take(int64_t slot, int64_t set, const Fields &entry) {
    if (slot >= size)
      entry.reject("slot", "is " + std::to_string(slot) + ", but " + table +
                               " has " + std::to_string(size));
    bool met = set < 0 ? any.count(slot) : taken.count({slot, -1});
    if (met || !taken.insert({slot, set}).second)
      entry.reject("slot", "is " + std::to_string(slot) + ", taken before");
    any.insert(slot);
  }

private:
  const char *table;
  int64_t size;
  std::set<std::pair<int64_t, int64_t>> taken;
  std::set<int64_t> any;
};

class Reader {
public:
  explicit Reader(const json &object) : root{object, "manifest"} {}
  Manifest read();

private:
  void checkLaunches();
  void checkVersion();
  void readCounts();
  void readTargets(const char *key, std::vector<std::string> &out);
  template <typename Read> void forEach(const char *key, Read read);
  template <typename Entry> void readNames(const Fields &fields, Entry &entry);
  void readStream(const Fields &fields);
  void readScalar(const Fields &fields);
  void readPhase(const Fields &fields);
  void readProducts(const Fields &fields, Phase &phase);
  void readExchange(const Fields &fields);
  void readPartial(const Fields &fields);
  void readWarning(const Fields &fields);

  Fields root;
  Manifest manifest{};
  std::set<std::string> names;
  std::set<std::tuple<int64_t, int32_t, std::string>> keys;
  Slots rowSlots{"a row", 0}, inputSlots{"inputs", 0};
  Slots groupSlots{"a group", 0}, stepSlots{"scalars", 0};
};

void Reader::readTargets(const char *key, std::vector<std::string> &out) {
  for (const json &entry : root.list(key)) {
    if (!entry.is_string() || !isWord(entry.get<std::string>()))
      root.reject(key, "names a target that is not a name");
    out.push_back(entry.get<std::string>());
  }
}

template <typename Read> void Reader::forEach(const char *key, Read read) {
  size_t index = 0;
  for (const json &entry : root.list(key))
    read(Fields{entry, key + ("[" + std::to_string(index++) + "]")});
}

// Front ends find streams and scalars by set, role and key.
template <typename Entry>
void Reader::readNames(const Fields &fields, Entry &entry) {
  entry.name = fields.word("name");
  entry.key = fields.word("key");
  entry.role = fields.choice("role", roles);
  entry.access = fields.choice("access", accesses);
  if (!names.insert(entry.name).second)
    fields.reject("name", "is \"" + entry.name + "\", taken before");
  if (!keys.insert({entry.set, entry.role, entry.key}).second)
    fields.reject("key",
                  "is \"" + entry.key + "\", taken before in its set and role");
}

void Reader::readStream(const Fields &fields) {
  Stream stream;
  stream.set = fields.integer("set", 0, manifest.sets - 1);
  readNames(fields, stream);
  if (stream.role > ALTGRAD_ROLE_INPUT)
    fields.reject("role",
                  "is \"" + fields.text("role") + "\", which is of scalars");
  stream.format = fields.text("format");
  stream.bits = fields.power("bits", 64);
  stream.even = fields.choice("even", halves);
  if ((stream.even != ALTGRAD_UNPACKED) != (stream.bits == 4))
    fields.reject("even", "is " + fields.text("even") + " beside " +
                              std::to_string(stream.bits) +
                              " bits: codes of 4 bits share bytes, no others");
  stream.block = fields.power("block", ALTGRAD_CHUNK);
  stream.columns = fields.integer("columns", 0, ALTGRAD_TILE_COLUMNS);
  if (stream.columns > 1 && (stream.columns != ALTGRAD_TILE_COLUMNS ||
                             stream.block != stream.columns))
    fields.reject("columns", "is " + std::to_string(stream.columns) +
                                 " of blocks of " +
                                 std::to_string(stream.block) + " rows");
  stream.slot = fields.integer("slot", 0, mostWords);
  (stream.access == ALTGRAD_IN ? inputSlots : rowSlots)
      .take(stream.slot, stream.set, fields);
  manifest.streams.push_back(std::move(stream));
}

void Reader::readScalar(const Fields &fields) {
  Scalar scalar;
  scalar.set = fields.integerOrNull("set", manifest.sets - 1);
  readNames(fields, scalar);
  if (scalar.role != ALTGRAD_ROLE_NONE && scalar.role <= ALTGRAD_ROLE_INPUT)
    fields.reject("role",
                  "is \"" + fields.text("role") + "\", which is of streams");
  scalar.type = fields.choice("type", types);
  scalar.bytes = typeBytes[scalar.type];
  scalar.scope = fields.choice("scope", scopes);
  if (scalar.scope == ALTGRAD_PER_STEP && scalar.set >= 0)
    fields.reject("set", "is " + std::to_string(scalar.set) +
                             ", but a scalar of the step has none");
  const json &given = fields.member("default");
  scalar.hasDefault = !given.is_null();
  if (scalar.hasDefault && !given.is_number() && !given.is_boolean())
    fields.reject("default", "is neither null nor a number");
  scalar.value = given.is_number()    ? given.get<double>()
                 : given.is_boolean() ? given.get<bool>()
                                      : 0;
  scalar.slot = fields.integer("slot", 0, mostWords);
  Slots &slots = scalar.scope == ALTGRAD_PER_STEP    ? stepSlots
                 : scalar.scope == ALTGRAD_PER_GROUP ? groupSlots
                                                     : rowSlots;
  slots.take(scalar.slot, scalar.set, fields);
  manifest.scalars.push_back(std::move(scalar));
}

void Reader::readPhase(const Fields &fields) {
  Phase phase;
  phase.name = fields.text("name");
  phase.symbol = fields.word("symbol");
  phase.kind = fields.choice("kind", kinds);
  phase.domain = fields.choice("domain", domains);
  if (!fits(phase.kind, phase.domain))
    fields.reject("domain", "is \"" + fields.text("domain") + "\" of a " +
                                fields.text("kind") + " phase");
  phase.set = fields.integerOrNull("set", manifest.sets - 1);
  phase.perBlock = fields.integer("per_block", 1, mostPerBlock);
  phase.finishes = fields.integer("finishes", 0, mostWords);
  phase.block = fields.power("block", ALTGRAD_CHUNK);
  phase.tiles = fields.integer("tiles", 0, ALTGRAD_TILE_COLUMNS);
  if (phase.tiles && phase.tiles != ALTGRAD_TILE_COLUMNS &&
      phase.tiles != ALTGRAD_CHUNK / ALTGRAD_TILE_COLUMNS)
    fields.reject("tiles",
                  "is " + std::to_string(phase.tiles) + ", not 0, 32 or 128");
  for (const Phase &other : manifest.phases)
    if (phase.tiles && other.tiles && phase.tiles != other.tiles &&
        (phase.set < 0 || other.set < 0 || phase.set == other.set))
      fields.reject("tiles", "is " + std::to_string(phase.tiles) + ", and " +
                                 std::to_string(other.tiles) + " of " +
                                 other.name + " in the same set");
  phase.read = fields.number("read", mostTraffic);
  phase.written = fields.number("written", mostTraffic);
  if (phase.kind == ALTGRAD_MATRIX)
    readProducts(fields, phase);
  manifest.phases.push_back(std::move(phase));
}

void Reader::readProducts(const Fields &fields, Phase &phase) {
  size_t index = 0;
  for (const json &entry : fields.list("products"))
    phase.products.push_back(
        readProduct({entry, fields.place + ".products[" + std::to_string(index++) + "]"}, manifest.spills));
  if (phase.products.empty() || phase.set < 0)
    fields.reject("products", "is empty, or of no set");
}

void Reader::readExchange(const Fields &fields) {
  Exchange exchange;
  int64_t last = int64_t(manifest.phases.size()) - 1;
  int64_t before =
      manifest.exchanges.empty() ? 0 : manifest.exchanges.back().phase;
  exchange.phase = fields.integer("phase", before + 1, last);
  std::set<int64_t> taken;
  size_t index = 0;
  for (const json &entry : fields.list("words")) {
    Fields word{entry,
                fields.place + ".words[" + std::to_string(index++) + "]"};
    int64_t number = word.integer("word", 0, manifest.workspaceStepWords - 1);
    if (!taken.insert(number).second)
      word.reject("word", "is " + std::to_string(number) + ", taken before");
    exchange.words.push_back({number, word.choice("reduction", reductions)});
  }
  if (exchange.words.empty())
    fields.reject("words", "is empty");
  manifest.exchanges.push_back(std::move(exchange));
}

void Reader::readPartial(const Fields &fields) {
  const int64_t last = int64_t(manifest.phases.size()) - 1;
  manifest.partials.push_back(
      {fields.integer("phase", 1, last),
       fields.integer("set", 0, manifest.sets - 1),
       fields.integer("word", 0, manifest.workspaceRowWords - 1),
       fields.choice("reduction", reductions)});
}

void Reader::readWarning(const Fields &fields) {
  Limit warning;
  warning.set = fields.integer("set", 0, manifest.sets - 1);
  warning.stream = fields.word("stream");
  if (!fields.member("hyper").is_null())
    warning.hyper = fields.word("hyper");
  warning.above = fields.number("above", mostBound);
  warning.below = fields.number("below", mostBound);
  warning.text = fields.text("text");
  manifest.warnings.push_back(std::move(warning));
}

void Reader::checkVersion() {
  int64_t version = root.integer("altgrad", 0, INT32_MAX);
  std::string producer = root.text("producer").substr(0, 64);
  if (version != ALTGRAD_ABI)
    throw std::runtime_error("manifest " + std::to_string(version) + " (" +
                             producer + "), this runtime reads " +
                             std::to_string(ALTGRAD_ABI) +
                             ": compile it again");
  root.text("step");
}

void Reader::readCounts() {
  manifest.sets = root.integer("sets", 1, ALTGRAD_SETS);
  manifest.units = root.integer("units", 0, 1);
  manifest.rowWords = root.integer("row_words", ALTGRAD_ROW_HEADER, mostWords);
  manifest.inputs = root.integer("inputs", 0, mostWords);
  manifest.groupScalars = root.integer("group_scalars", 0, mostWords);
  manifest.stepScalars = root.integer("step_scalars", 0, mostWords);
  Fields space = root.at("workspace");
  manifest.workspaceStepWords = space.integer("step_words", 0, mostStepWords);
  manifest.workspaceRowWords = space.integer("row_words", 0, mostWords);
  manifest.workspaceChunkWords = space.integer("chunk_words", 0, mostWords);
  manifest.spills = space.integer("spills", 0, mostSpills);
  rowSlots = Slots("a row", manifest.rowWords - ALTGRAD_ROW_HEADER);
  inputSlots = Slots("inputs", manifest.inputs);
  groupSlots = Slots("a group", manifest.groupScalars);
  stepSlots = Slots("scalars", manifest.stepScalars);
}

// A launch ends before the next sweep and at an exchange.
void Reader::checkLaunches() {
  for (size_t i = 0; i < manifest.phases.size(); ++i) {
    size_t count = size_t(manifest.phases[i].finishes);
    bool fits = count < manifest.phases.size() - i;
    for (size_t j = i + 1; fits && j <= i + count; ++j)
      fits = manifest.phases[j].kind != ALTGRAD_SWEEP && manifest.phases[j].kind != ALTGRAD_MATRIX;
    auto endsAt = [&](int64_t phase) {
      fits &= size_t(phase) <= i || size_t(phase) > i + count;
    };
    for (const Exchange &exchange : manifest.exchanges)
      endsAt(exchange.phase);
    for (const SliceSum &partial : manifest.partials)
      endsAt(partial.phase);
    if (!fits)
      throw std::runtime_error("phases[" + std::to_string(i) +
                               "].finishes is " + std::to_string(count) +
                               ", but the launch ends before");
  }
}

Manifest Reader::read() {
  checkVersion();
  readCounts();
  readTargets("host", manifest.host);
  readTargets("ptx", manifest.ptx);
  forEach("streams", [&](const Fields &entry) { readStream(entry); });
  forEach("scalars", [&](const Fields &entry) { readScalar(entry); });
  forEach("phases", [&](const Fields &entry) { readPhase(entry); });
  forEach("exchanges", [&](const Fields &entry) { readExchange(entry); });
  forEach("partials", [&](const Fields &entry) { readPartial(entry); });
  if (root.object.contains("warnings")) // not in those of an older compiler
    forEach("warnings", [&](const Fields &entry) { readWarning(entry); });
  checkLaunches();
  return std::move(manifest);
}

} // namespace

int64_t Manifest::unitMultiple(int64_t set) const {
  int64_t most = 1;
  for (const Stream &stream : streams)
    if (stream.set == set && !stream.columns)
      most = std::max(most, stream.block);
  for (const Phase &phase : phases)
    if (phase.set == set || phase.set < 0)
      most = std::max(most, phase.block);
  return most;
}

int64_t Manifest::rowMultiple(int64_t set) const {
  int64_t most = 1;
  for (const Phase &phase : phases)
    if (phase.tiles && (phase.set == set || phase.set < 0))
      most = std::max(most, phase.block);
  return most;
}

int64_t Manifest::tileRows(int64_t set) const {
  int64_t rows = 0;
  for (const Phase &phase : phases)
    if (phase.tiles && (phase.set == set || phase.set < 0))
      rows = phase.tiles;
  return rows;
}

Manifest altgrad::runtime::parseManifest(const char *text, size_t size) {
  json root = json::parse(text, text + size);
  return Reader(root).read();
}
