// Reads a bundle's manifest. The compiler has written it, and the bundle's digest says that it is whole, so that only
// its version and its words are checked.
#include "bundle/Manifest.h"
#include "altgrad/altgrad.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::json;

namespace altgrad::runtime {

template <typename Value> using Choice = std::pair<const char *, Value>;

constexpr Choice<int32_t> accesses[] = {{"in", ALTGRAD_IN}, {"out", ALTGRAD_OUT}, {"inout", ALTGRAD_INOUT}};
constexpr Choice<int32_t> halves[] = {
    {"none", ALTGRAD_UNPACKED}, {"low", ALTGRAD_EVEN_LOW}, {"high", ALTGRAD_EVEN_HIGH}};
constexpr Choice<int32_t> scopes[] = {{"step", ALTGRAD_PER_STEP},
                                      {"group", ALTGRAD_PER_GROUP},
                                      {"tensor", ALTGRAD_PER_TENSOR},
                                      {"unit", ALTGRAD_PER_UNIT}};
constexpr Choice<int32_t> reductions[] = {
    {"add", ALTGRAD_ADD}, {"sumsq", ALTGRAD_SUMSQ}, {"max", ALTGRAD_MAX}, {"and", ALTGRAD_AND}};
constexpr Choice<int32_t> roles[] = {{"none", ALTGRAD_ROLE_NONE},
#define ALTGRAD_ROLE(word, WORD) {#word, ALTGRAD_ROLE_##WORD},
                                     ALTGRAD_ROLES(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};
constexpr Choice<int32_t> types[] = {
    {"f64", ALTGRAD_F64}, {"i64", ALTGRAD_I64}, {"f32", ALTGRAD_F32}, {"i32", ALTGRAD_I32}, {"i1", ALTGRAD_I1}};
constexpr int64_t typeBytes[] = {8, 8, 4, 4, 1}; // by ALTGRAD_F64 and so on
constexpr Choice<int32_t> kinds[] = {{"sweep", ALTGRAD_SWEEP},
                                     {"fold", ALTGRAD_FOLD},
                                     {"total", ALTGRAD_TOTAL},
                                     {"scalars", ALTGRAD_SCALARS},
                                     {"matrix", ALTGRAD_MATRIX}};
constexpr Choice<Domain> domains[] = {{"chunks", Domain::Chunks}, {"rows", Domain::Rows}, {"once", Domain::Once}};
constexpr Choice<Form> forms[] = {{"gram", Form::Gram},
                                  {"square", Form::Square},
                                  {"side", Form::Side},
                                  {"matmul", Form::Matmul},
                                  {"eigenbasis", Form::Eigenbasis},
                                  {"order", Form::Order},
                                  {"orthonormal", Form::Orthonormal},
                                  {"inverse_root", Form::InverseRoot},
                                  {"identity", Form::Identity}};
constexpr Choice<Side> sides[] = {
    {"element", Side::None}, {"column", Side::None}, {"rows", Side::Rows}, {"columns", Side::Columns}};
constexpr Choice<Source> sources[] = {{"rows", Source::Rows}, {"inputs", Source::Inputs}};
constexpr Choice<int32_t> operands[] = {
    {"bf16", ALTGRAD_GEMM_BF16}, {"f16", ALTGRAD_GEMM_F16}, {"f32", ALTGRAD_GEMM_F32}};

constexpr Choice<UnitKind> unitKinds[] = {
    {"none", UnitKind::None}, {"given", UnitKind::Given}, {"matrices", UnitKind::Matrices}, {"rows", UnitKind::Rows}};
constexpr Choice<Walk> walks[] = {{"chunks", Walk::Chunks},
                                  {"runs", Walk::Runs},
                                  {"heads", Walk::Heads},
                                  {"columns", Walk::Columns},
                                  {"row_squares", Walk::RowSquares},
                                  {"column_squares", Walk::ColumnSquares}};

static std::string wordOf(const char *key) { return key; }
static std::string wordOf(size_t set) { return "what units of set " + std::to_string(set) + " are"; }

template <typename Key, typename Value, size_t Count>
static void choose(const json &entry, Key key, const Choice<Value> (&choices)[Count], Value &out) {
  const auto &given = entry.at(key).template get_ref<const std::string &>();
  for (const auto &[name, value] : choices)
    if (given == name) {
      out = value;
      return;
    }
  throw std::runtime_error(wordOf(key) + " is \"" + given + "\", which this runtime does not know");
}

static int64_t numberOrNone(const json &value) { return value.is_null() ? -1 : value.get<int64_t>(); }

template <typename Entry> static void readNames(const json &entry, Entry &out) {
  entry.at("name").get_to(out.name);
  entry.at("key").get_to(out.key);
  choose(entry, "role", roles, out.role);
  choose(entry, "access", accesses, out.access);
  out.set = numberOrNone(entry.at("set"));
  entry.at("slot").get_to(out.slot);
}

static void from_json(const json &entry, Stream &out) {
  readNames(entry, out);
  entry.at("format").get_to(out.format);
  entry.at("bits").get_to(out.bits);
  choose(entry, "even", halves, out.even);
  entry.at("block").get_to(out.block);
  entry.at("columns").get_to(out.columns);
  out.square = Side::None;
  if (entry.contains("per"))
    choose(entry, "per", sides, out.square);
  out.perColumn = entry.contains("per") && out.square == Side::None;
}

static void from_json(const json &entry, Scalar &out) {
  readNames(entry, out);
  choose(entry, "type", types, out.type);
  out.bytes = typeBytes[out.type];
  choose(entry, "scope", scopes, out.scope);
  const json &value = entry.at("default");
  out.hasDefault = !value.is_null();
  out.value = value.is_boolean() ? double(value.get<bool>()) : out.hasDefault ? value.get<double>() : 0;
}

static void from_json(const json &entry, Operand &out) {
  choose(entry, "of", sides, out.of);
  if (entry.contains("table"))
    choose(entry, "table", sources, out.in);
  entry.at("list").get_to(out.list);
  entry.at("transposed").get_to(out.transposed);
}

static void from_json(const json &entry, Product &out) {
  choose(entry, "form", forms, out.form);
  choose(entry, "format", operands, out.type);
  out.bytes = out.type == ALTGRAD_GEMM_F32 ? 4 : 2;
  if (out.isGeneral()) {
    out.least = 0, out.below = HUGE_VAL, out.alone = false;
    entry.at("left").get_to(out.operands[0]);
    entry.at("right").get_to(out.operands[1]);
    entry.at("into").get_to(out.operands[2]);
    entry.at("root").get_to(out.root);
    return;
  }
  entry.at("left").get_to(out.left);
  entry.at("right").get_to(out.right);
  entry.at("into").get_to(out.into);
  out.added = numberOrNone(entry.at("added"));
  entry.at("alone").get_to(out.alone);
  entry.at("factor").get_to(out.factor);
  entry.at("weight").get_to(out.weight);
  entry.at("shift").get_to(out.shift);
  entry.at("least").get_to(out.least);
  const json &below = entry.at("below");
  out.below = below.is_null() ? HUGE_VAL : below.get<double>();
}

static void findPermutations(std::vector<Product> &products) {
  for (auto product = products.begin(); product != products.end(); ++product)
    for (int i = 0; product->form == Form::Matmul && i < 2; ++i) {
      auto makes = [&](const Product &one) { return one.isGeneral() && one.operands[2].isList(product->operands[i]); };
      auto last = std::find_if(std::make_reverse_iterator(product), products.rend(), makes);
      if (last != products.rend() && last->form == Form::Order)
        product->permutation = i;
    }
}

static void from_json(const json &entry, Phase &out) {
  entry.at("name").get_to(out.name);
  entry.at("symbol").get_to(out.symbol);
  choose(entry, "kind", kinds, out.kind);
  choose(entry, "domain", domains, out.domain);
  out.set = numberOrNone(entry.at("set"));
  entry.at("per_block").get_to(out.perBlock);
  entry.at("finishes").get_to(out.finishes);
  entry.at("block").get_to(out.block);
  entry.at("tiles").get_to(out.tiles);
  out.walk = Walk::Chunks;
  if (entry.contains("walk"))
    choose(entry, "walk", walks, out.walk);
  entry.at("read").get_to(out.read);
  entry.at("written").get_to(out.written);
  if (out.kind == ALTGRAD_MATRIX)
    entry.at("products").get_to(out.products);
  findPermutations(out.products);
}

static void from_json(const json &entry, Exchange::Word &out) {
  entry.at("word").get_to(out.word);
  choose(entry, "reduction", reductions, out.reduction);
  out.sum = entry.value("sum", "");
}

static void from_json(const json &entry, Exchange &out) {
  entry.at("phase").get_to(out.phase);
  entry.at("words").get_to(out.words);
}

static void from_json(const json &entry, SliceSum &out) {
  entry.at("phase").get_to(out.phase);
  entry.at("set").get_to(out.set);
  entry.at("word").get_to(out.word);
  choose(entry, "reduction", reductions, out.reduction);
}

static void from_json(const json &entry, Limit &out) {
  entry.at("set").get_to(out.set);
  entry.at("stream").get_to(out.stream);
  if (!entry.at("hyper").is_null())
    entry.at("hyper").get_to(out.hyper);
  entry.at("above").get_to(out.above);
  entry.at("below").get_to(out.below);
  entry.at("text").get_to(out.text);
}

static void from_json(const json &root, Manifest &out) {
  root.at("host").get_to(out.host);
  root.at("ptx").get_to(out.ptx);
  root.at("sets").get_to(out.sets);
  const json &units = root.at("units");
  out.units.resize(units.size());
  for (size_t set = 0; set < units.size(); ++set)
    choose(units, set, unitKinds, out.units[set]);
  out.places = root.value("places", std::vector<bool>()); // which bundles of a compiler before it lack
  root.at("row_words").get_to(out.rowWords);
  root.at("inputs").get_to(out.inputs);
  root.at("group_scalars").get_to(out.groupScalars);
  root.at("step_scalars").get_to(out.stepScalars);
  const json &space = root.at("workspace");
  space.at("step_words").get_to(out.workspaceStepWords);
  space.at("row_words").get_to(out.workspaceRowWords);
  space.at("chunk_words").get_to(out.workspaceChunkWords);
  space.at("spills").get_to(out.spills);
  if (space.contains("columns")) {
    const json &columns = space.at("columns");
    columns.at("slot").get_to(out.columnSlot);
    columns.at("lists").get_to(out.columnLists);
    columns.at("runs").get_to(out.columnRuns);
  }
  if (space.contains("squares")) {
    const json &squares = space.at("squares");
    squares.at("slot").get_to(out.squares.slot);
    squares.at("rows").get_to(out.squares.rows);
    squares.at("columns").get_to(out.squares.columns);
    out.squares.rowWords = squares.value("row_words", int64_t(0)); // which bundles of a compiler before it lack
    out.squares.columnWords = squares.value("column_words", int64_t(0));
  }
  root.at("streams").get_to(out.streams);
  root.at("scalars").get_to(out.scalars);
  root.at("phases").get_to(out.phases);
  for (Phase &phase : out.phases)
    phase.squares = out.squares, phase.spills = out.spills;
  root.at("exchanges").get_to(out.exchanges);
  root.at("partials").get_to(out.partials);
  root.at("warnings").get_to(out.warnings);
}

static Manifest parse(const std::string &text) {
  const json root = json::parse(text);
  if (const int64_t version = root.at("altgrad"); version != ALTGRAD_ABI)
    throw std::runtime_error("manifest " + std::to_string(version) + " (" +
                             root.at("producer").get<std::string>().substr(0, 64) + "), this runtime reads " +
                             std::to_string(ALTGRAD_ABI) + ": compile it again");
  return root;
}

} // namespace altgrad::runtime

using namespace altgrad::runtime;

Manifest altgrad::runtime::parseManifest(const std::string &text) {
  try {
    return parse(text);
  } catch (const json::exception &error) {
    throw std::runtime_error(std::string("the manifest is damaged: ") + error.what());
  }
}

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

bool Manifest::hasSquares(int64_t set, Side side) const {
  const Walk walk = side == Side::Rows ? Walk::RowSquares : Walk::ColumnSquares;
  for (const Stream &stream : streams)
    if (stream.set == set && stream.square == side)
      return true;
  for (const Phase &phase : phases)
    for (const Product &product : phase.products)
      if (phase.set == set && product.isGeneral() && product.operands[2].of == side)
        return true;
  return std::any_of(phases.begin(), phases.end(),
                     [&](const Phase &phase) { return phase.set == set && phase.walk == walk; });
}

bool Manifest::areTall(int64_t set) const {
  for (const Phase &phase : phases)
    for (const Product &product : phase.products)
      if (phase.set == set && product.form == Form::Orthonormal && product.operands[2].of == Side::None)
        return true;
  return false;
}

const Phase *Manifest::matrixPhase(int64_t set) const {
  for (const Phase &phase : phases)
    if (phase.set == set && !phase.products.empty())
      return &phase;
  return nullptr;
}
