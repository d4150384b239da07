// Random damage to a bundle's manifest and random tensors: whatever is accepted keeps
// the promises of Manifest.h and Tensors.h, and nothing crashes.
#include "Folder.h"
#include "Sgd.h"
#include "bundle/Bundle.h"
#include "plan/Plan.h"

#include <nlohmann/json.hpp>
#include <random>
#include <set>

using namespace altgrad::runtime;
using nlohmann::json;

namespace {

using Random = std::mt19937;

// Numbers at every border, words that mean something elsewhere, wrong kinds.
const char *const hostile[] = {
    "-1", "0", "1", "2", "3", "7", "10", "12", "13", "24", "63", "64", "65",
    "255", "4096", "4097", "16777216", "2147483648", "4294967295",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615",
    "1e300", "-1e300", "0.5", "null", "true", "[]", "{}", "\"\"", "\"w\"",
    "\"m\"", "\"in\"", "\"out\"", "\"inout\"", "\"param\"", "\"grad\"",
    "\"hyper\"", "\"norm\"", "\"none\"", "\"f64\"", "\"step\"", "\"group\"",
    "\"tensor\"", "\"chunks\"", "\"rows\"", "\"once\"", "\"sweep\"",
    "\"total\"", "\"max\"", "\"\\u0000\"", "\"\\ud83d\\ude00\"", "\"a b\""};

// Some value inside `value`, each with a fair chance.
json &somewhere(json &value, Random &random) {
  json *place = &value;
  while (place->is_structured() && !place->empty() && random() % 8)
    place = &*std::next(place->begin(),
                        std::ptrdiff_t(random() % place->size()));
  return *place;
}

void damage(json &manifest, Random &random) {
  json &place = somewhere(manifest, random);
  if (place.is_array() && !place.empty() && random() % 2) {
    json copy = place[random() % place.size()];
    random() % 2 ? place.push_back(copy) : place.erase(random() % place.size());
  } else if (place.is_object() && !place.empty() && random() % 2) {
    place.erase(std::next(place.begin(),
                          std::ptrdiff_t(random() % place.size())));
  } else {
    place = json::parse(hostile[random() % std::size(hostile)]);
  }
}

// What Manifest.h promises of one that was accepted.
void expectPromises(const Manifest &manifest) {
  std::set<std::string> names;
  ASSERT_TRUE(manifest.sets >= 1 && manifest.sets <= ALTGRAD_SETS);
  ASSERT_TRUE(manifest.rowWords >= ALTGRAD_ROW_HEADER);
  for (const Stream &stream : manifest.streams) {
    EXPECT_TRUE(names.insert(stream.name).second);
    ASSERT_TRUE(stream.set >= 0 && stream.set < manifest.sets);
    ASSERT_TRUE(stream.slot >= 0 &&
                stream.slot < (stream.access == ALTGRAD_IN
                                   ? manifest.inputs
                                   : manifest.rowWords - ALTGRAD_ROW_HEADER));
    ASSERT_TRUE(stream.alignment() >= 1 && stream.alignment() <= 8);
  }
  for (const Scalar &scalar : manifest.scalars) {
    EXPECT_TRUE(names.insert(scalar.name).second);
    ASSERT_TRUE(scalar.set >= -1 && scalar.set < manifest.sets);
    int64_t room = scalar.scope == ALTGRAD_PER_STEP    ? manifest.stepScalars
                   : scalar.scope == ALTGRAD_PER_GROUP ? manifest.groupScalars
                                                       : manifest.rowWords -
                                                             ALTGRAD_ROW_HEADER;
    ASSERT_TRUE(scalar.slot >= 0 && scalar.slot < room);
  }
  for (const Exchange &exchange : manifest.exchanges) {
    ASSERT_TRUE(exchange.phase > 0 &&
                exchange.phase < int64_t(manifest.phases.size()));
    for (const Exchange::Word &word : exchange.words)
      ASSERT_TRUE(word.word >= 0 && word.word < manifest.workspaceStepWords);
  }
}

int64_t someNumber(Random &random) {
  static const int64_t all[] = {-1, 0, 1, 2, 3, 5, 32, 64, 4095, 4096, 4097,
                                int64_t(1) << 32, int64_t(1) << 44, INT64_MAX,
                                INT64_MIN};
  return all[random() % (random() % 4 ? 7 : std::size(all))];
}

// Declares random tensors; few enough elements that a plan of them is small.
void declareSome(altgrad_plan *plan, Random &random) {
  std::vector<altgrad_tensor> tensors(random() % 4);
  int64_t groups = int64_t(random() % 4);
  for (altgrad_tensor &tensor : tensors) {
    tensor = {sizeof(altgrad_tensor), someNumber(random), someNumber(random),
              someNumber(random),     someNumber(random), int64_t(random() % 3),
              int64_t(random() % 3),  someNumber(random), someNumber(random),
              someNumber(random),     int64_t(random() % 2)};
    if (random() % 2)
      tensor.offset = tensor.rows = tensor.columns = tensor.units =
          tensor.whole = 0;
    tensor.numel = std::min(tensor.numel, int64_t(1) << 20);
  }
  if (altgrad_bind_tensors(plan, tensors.data(), int64_t(tensors.size()),
                           groups) != ALTGRAD_OK)
    return;
  const Tables &tables = plan->tables;
  const Manifest &manifest = plan->bundle->manifest();
  ASSERT_EQ(tables.setRows.size(), size_t(manifest.sets) + 1);
  EXPECT_TRUE(std::is_sorted(tables.setRows.begin(), tables.setRows.end()));
  EXPECT_TRUE(std::is_sorted(tables.setChunks.begin(), tables.setChunks.end()));
  EXPECT_EQ(tables.setRows.back(), int64_t(tensors.size()));
  EXPECT_EQ(tables.setChunks.back(), int64_t(tables.chunks.size()));
  for (const altgrad_tensor &tensor : tensors)
    EXPECT_GE(tensor.numel, 0);
  uint64_t bytes = 0;
  EXPECT_EQ(altgrad_workspace(plan, &bytes), ALTGRAD_OK);
}

// Binds every name with some count of some pointers.
void bindAll(altgrad_plan *plan, Random &random) {
  alignas(64) static char memory[64];
  for (const Stream &stream : plan->bundle->manifest().streams) {
    std::vector<void *> pointers(8, memory + random() % 2 * (random() % 9));
    altgrad_bind_stream(plan, stream.name.c_str(), pointers.data(),
                        int64_t(random() % 5));
    altgrad_bind_stream(plan, stream.name.c_str(), pointers.data(), INT64_MIN);
    altgrad_bind_stream(plan, stream.name.c_str(), pointers.data(), INT64_MAX);
  }
  for (const Scalar &scalar : plan->bundle->manifest().scalars) {
    std::vector<void *> pointers(8, memory);
    altgrad_bind_scalar(plan, scalar.name.c_str(), pointers.data(),
                        int64_t(random() % 5));
    altgrad_bind_scalar(plan, scalar.name.c_str(), pointers.data(), -1);
  }
}

void askAll(const altgrad_bundle *bundle) {
  altgrad_exchange_info exchange = {sizeof exchange, 0, 0};
  altgrad_exchange_word word = {sizeof word, 0, 0};
  for (int64_t i = 0; i < altgrad_exchange_count(bundle); ++i) {
    ASSERT_ALTGRAD(altgrad_exchange_at(bundle, i, &exchange));
    for (int64_t w = 0; w < exchange.words; ++w)
      ASSERT_ALTGRAD(altgrad_exchange_word_at(bundle, i, w, &word));
  }
  altgrad_stream_info stream{};
  altgrad_scalar_info scalar{};
  stream.size = sizeof stream;
  scalar.size = sizeof scalar;
  for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i)
    ASSERT_ALTGRAD(altgrad_stream_at(bundle, i, &stream));
  for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i)
    ASSERT_ALTGRAD(altgrad_scalar_at(bundle, i, &scalar));
}

// The bundle of two sets with another manifest in the same place.
class Hostile : public Folder {
protected:
  void SetUp() override {
    Folder::SetUp();
    whole = read(SETS_BUNDLE);
    text = altgrad_manifest(loadSgd(SETS_BUNDLE).get());
    place = whole.find(text);
    ASSERT_NE(place, std::string::npos);
  }
  // A bundle with this manifest; none where it is refused or too long.
  BundlePointer load(const std::string &manifest) {
    if (manifest.size() > text.size())
      return nullptr;
    std::string padded = manifest;
    padded.resize(text.size(), ' ');
    std::string bytes = whole;
    bytes.replace(place, text.size(), padded);
    write(folder + "/bundle.so", bytes);
    altgrad_bundle *bundle = nullptr;
    altgrad_status status =
        altgrad_load((folder + "/bundle.so").c_str(), &bundle);
    EXPECT_TRUE(status == ALTGRAD_OK || status == ALTGRAD_BROKEN)
        << altgrad_last_error();
    return BundlePointer(bundle);
  }
  std::string whole, text;
  size_t place = 0;
};

TEST_F(Hostile, DamagedManifestsAreRefusedOrKeepTheirPromises) {
  int accepted = 0, refused = 0;
  for (unsigned seed = 0; seed < 6000; ++seed) {
    Random random(seed);
    json manifest = json::parse(text);
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits)
      damage(manifest, random);
    std::string damaged = manifest.dump(-1, ' ', true);
    try {
      expectPromises(parseManifest(damaged.data(), damaged.size()));
      ++accepted;
    } catch (const std::runtime_error &error) {
      EXPECT_LT(strlen(error.what()), 400u);
      ++refused;
    }
    if (HasFailure())
      FAIL() << "seed " << seed << ": " << damaged;
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 3000);
}

TEST_F(Hostile, PlansOfDamagedBundlesTakeAnyTensors) {
  int planned = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    json manifest = json::parse(text);
    damage(manifest, random);
    BundlePointer bundle = load(manifest.dump(-1, ' ', true));
    if (!bundle)
      continue;
    askAll(bundle.get());
    altgrad_plan *raw = nullptr;
    altgrad_plan_create(bundle.get(), "cpu:v3", &raw);
    PlanPointer plan(raw);
    for (int round = 0; plan && round < 8; ++round) {
      declareSome(plan.get(), random);
      if (plan->declared)
        bindAll(plan.get(), random);
    }
    planned += bool(plan);
    if (HasFailure())
      FAIL() << "seed " << seed << ": " << manifest;
  }
  EXPECT_GT(planned, 100);
}

} // namespace
