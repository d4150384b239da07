// Tensors as they are declared: what is refused, and what kernels are told.
#include "Sgd.h"
#include "plan/Plan.h"
#include "plan/Tensors.h"

#include <cstring>

namespace {

altgrad_status declare(const PlanPointer &plan,
                       const std::vector<altgrad_tensor> &tensors,
                       int64_t groups = 3) {
  return altgrad_bind_tensors(plan.get(), tensors.data(),
                              int64_t(tensors.size()), groups);
}

const uint64_t *rowOf(const PlanPointer &plan, int64_t row) {
  return plan->tables.rows.data() + row * plan->bundle->manifest().rowWords;
}

constexpr int64_t most = int64_t(1) << 44;

TEST(Runtime, RowsSayWhatWasDeclared) {
  PlanPointer plan = planSets();
  altgrad_tensor second = declared(28 * 300, 1, 1);
  second.offset = 32 * 300;
  second.whole = 10 * 6 * 300;
  second.rows = 6;
  second.columns = 300;
  second.tag = 9;
  ASSERT_ALTGRAD(declare(plan, {declared(4097), second}));
  const uint64_t *row = rowOf(plan, 1);
  EXPECT_EQ(row[ALTGRAD_ROW_NUMEL], 8400u);
  EXPECT_EQ(row[ALTGRAD_ROW_OFFSET], 9600u);
  EXPECT_EQ(row[ALTGRAD_ROW_TAG], 9u);
  EXPECT_EQ(row[ALTGRAD_ROW_GROUP], 1u);
  EXPECT_EQ(row[ALTGRAD_ROW_FIRST_CHUNK], 2u);
  EXPECT_EQ(row[ALTGRAD_ROW_CHUNKS], 3u);
  EXPECT_EQ(row[ALTGRAD_ROW_TENSOR], 1u);
  EXPECT_EQ(row[ALTGRAD_ROW_MATRIX_ROWS], 6u);
  EXPECT_EQ(row[ALTGRAD_ROW_MATRIX_COLUMNS], 300u);
  EXPECT_EQ(row[ALTGRAD_ROW_BATCH], 10u);
  EXPECT_EQ(row[ALTGRAD_ROW_ROWS], 28u);
  EXPECT_EQ(row[ALTGRAD_ROW_LENGTH], 300u);
  const std::vector<altgrad_chunk> &chunks = plan->tables.chunks;
  ASSERT_EQ(chunks.size(), 5u);
  EXPECT_EQ(chunks[1].first, 4096);
  EXPECT_EQ(chunks[4].first, 8192);
  EXPECT_EQ(chunks[4].row, 1);
}

TEST(Runtime, WithoutAShapeATensorIsOneRowAndItsTagIsItsIndex) {
  PlanPointer plan = planSgd();
  ASSERT_ALTGRAD(declare(plan, {declared(7), declared(0), declared(5)}));
  EXPECT_EQ(rowOf(plan, 2)[ALTGRAD_ROW_TAG], 2u);
  EXPECT_EQ(rowOf(plan, 2)[ALTGRAD_ROW_MATRIX_ROWS], 1u);
  EXPECT_EQ(rowOf(plan, 2)[ALTGRAD_ROW_MATRIX_COLUMNS], 5u);
  EXPECT_EQ(rowOf(plan, 2)[ALTGRAD_ROW_BATCH], 1u);
  EXPECT_EQ(rowOf(plan, 1)[ALTGRAD_ROW_MATRIX_COLUMNS], 0u);
  EXPECT_EQ(rowOf(plan, 1)[ALTGRAD_ROW_CHUNKS], 0u);
}

TEST(Runtime, UnitsKnowTheFirstRowOfTheirTensor) {
  PlanPointer plan = planSgd();
  altgrad::runtime::Manifest manifest = plan->bundle->manifest();
  manifest.units.assign(1, altgrad::runtime::UnitKind::Given);
  altgrad_tensor matrix = declared(3 * 4097);
  matrix.rows = 3;
  matrix.columns = 4097;
  altgrad::runtime::Tables tables;
  altgrad::runtime::layTables(manifest, {declared(9), matrix, declared(0), matrix}, 1, tables);
  ASSERT_EQ(tables.nrows, 8);
  const uint64_t first[] = {0, 1, 1, 1, 4, 5, 5, 5};
  const uint64_t chunks[] = {1, 2, 2, 2, 0, 2, 2, 2};
  for (int64_t row = 0; row < tables.nrows; ++row) {
    const uint64_t *words = &tables.rows[size_t(row * manifest.rowWords)];
    EXPECT_EQ(words[ALTGRAD_ROW_TENSOR], first[row]) << row;
    EXPECT_EQ(words[ALTGRAD_ROW_CHUNKS], chunks[row]) << row;
  }
}

TEST(Runtime, UnitsMayBeOtherThanRows) {
  PlanPointer plan = planSgd();
  altgrad::runtime::Manifest manifest = plan->bundle->manifest();
  manifest.units.assign(1, altgrad::runtime::UnitKind::Given);
  altgrad_tensor batch = declared(2 * 3 * 5000);
  batch.rows = 3, batch.columns = 5000, batch.units = 2;
  altgrad::runtime::Tables tables;
  altgrad::runtime::layTables(manifest, {batch}, 1, tables);
  ASSERT_EQ(tables.nrows, 2);
  const uint64_t *second = &tables.rows[size_t(manifest.rowWords)];
  EXPECT_EQ(second[ALTGRAD_ROW_NUMEL], 15000u);
  EXPECT_EQ(second[ALTGRAD_ROW_OFFSET], 15000u);
  EXPECT_EQ(second[ALTGRAD_ROW_CHUNKS], 4u);
  EXPECT_EQ(second[ALTGRAD_ROW_MATRIX_ROWS], 3u);
  EXPECT_EQ(second[ALTGRAD_ROW_BATCH], 2u);
}

// Without what later ones say: units are rows.
TEST(Runtime, TheFirstTensorsStructIsKnown) {
  PlanPointer plan = planSgd();
  struct First {
    int64_t words[8];
  };
  First list[] = {{{64, 6, 0, 3, 2, 0, 0, -1}}, {{64, 8, 0, 0, 0, 1, 0, -1}}};
  ASSERT_ALTGRAD(altgrad_bind_tensors(
      plan.get(), reinterpret_cast<altgrad_tensor *>(list), 2, 2));
  EXPECT_EQ(rowOf(plan, 0)[ALTGRAD_ROW_MATRIX_ROWS], 3u);
  EXPECT_EQ(rowOf(plan, 1)[ALTGRAD_ROW_NUMEL], 8u);
}

struct Fault {
  int64_t altgrad_tensor::*member;
  int64_t value;
  const char *words;
};

// One tensor of three is wrong, and the plan keeps what it had before.
TEST(Runtime, WrongTensorsAreRefusedWithPlaceAndValue) {
  const Fault faults[] = {
      {&altgrad_tensor::numel, -1, "tensors[1].numel is -1; all together"},
      {&altgrad_tensor::numel, INT64_MIN, "tensors[1].numel is -9223372036854"},
      {&altgrad_tensor::numel, most + 1, "tensors[1].numel is 17592186044417"},
      {&altgrad_tensor::units, -1, "tensors[1].units is -1, not a divisor of"},
      {&altgrad_tensor::units, 1 << 20, "tensors[1].units is 1048576, not a div"},
      {&altgrad_tensor::offset, -1, "tensors[1].offset is -1: 6 elements"},
      {&altgrad_tensor::offset, 1, "tensors[1].offset is 1: 6 elements from "
                                   "there on are not within its whole of 6"},
      {&altgrad_tensor::offset, INT64_MAX, "tensors[1].offset is 92233720368"},
      {&altgrad_tensor::whole, 5, "not within its whole of 5"},
      {&altgrad_tensor::whole, -6, "tensors[1].whole is -6, not 0 to 2^44"},
      {&altgrad_tensor::whole, most + 1, "tensors[1].whole is 17592186044417"},
      {&altgrad_tensor::rows, 2, "no matrices of 2 rows and 0 columns"},
      {&altgrad_tensor::columns, 3, "no matrices of 0 rows and 3 columns"},
      {&altgrad_tensor::rows, -5, "no matrices of -5 rows"},
      {&altgrad_tensor::columns, INT64_MIN,
       "6 elements, which are no matrices"},
      {&altgrad_tensor::group, -1, "tensors[1].group is -1, not in [0, 3)"},
      {&altgrad_tensor::group, 3, "tensors[1].group is 3, not in [0, 3)"},
      {&altgrad_tensor::set, -1, "tensors[1].set is -1, not in [0, 0]"},
      {&altgrad_tensor::set, 1, "tensors[1].set is 1, not in [0, 0]"},
      {&altgrad_tensor::set, INT64_MAX, "tensors come set by set"}};
  Tensors tensors({5, 6, 7});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  for (const Fault &fault : faults) {
    std::vector<altgrad_tensor> list = {declared(5), declared(6), declared(7)};
    list[1].*fault.member = fault.value;
    EXPECT_REFUSED(declare(plan, list), ALTGRAD_INVALID, fault.words);
  }
  ASSERT_ALTGRAD(tensors.run(plan.get())) << "nothing was changed";
}

TEST(Runtime, ShapesAreWholeMatrices) {
  PlanPointer plan = planSgd();
  struct Row {
    int64_t numel, rows, columns;
    bool fits;
  } rows[] = {{24, 4, 6, true},        {24, 2, 3, true},
              {24, 5, 5, false},       {24, 24, 2, false},
              {24, most, most, false}, {24, INT64_MAX, 2, false},
              {0, 4, 6, true},         {0, 0, 6, true},
              {0, 4, 0, true},         {0, most, most, true}};
  for (const Row &row : rows) {
    altgrad_tensor tensor = declared(row.numel);
    tensor.rows = row.rows;
    tensor.columns = row.columns;
    EXPECT_EQ(declare(plan, {tensor}) == ALTGRAD_OK, row.fits)
        << row.numel << " " << row.rows << " " << row.columns;
  }
}

TEST(Runtime, SumsOfElementsDoNotOverflow) {
  PlanPointer plan = planSgd();
  std::vector<altgrad_tensor> list(1 << 20, declared(most));
  EXPECT_REFUSED(declare(plan, list), ALTGRAD_INVALID, "tensors[1].numel is");
}

TEST(Runtime, CountsOfTensorsAndGroupsHaveLimits) {
  PlanPointer plan = planSgd();
  altgrad_tensor tensor = declared(5);
  for (int64_t count : {int64_t(-1), int64_t(1) << 25, INT64_MAX, INT64_MIN})
    EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &tensor, count, 1),
                   ALTGRAD_INVALID, "0 to 2^24 each");
  for (int64_t groups : {int64_t(-1), int64_t(1) << 25})
    EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &tensor, 1, groups),
                   ALTGRAD_INVALID, "0 to 2^24 each");
  EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), nullptr, 1, 1),
                 ALTGRAD_INVALID, "tensors is NULL");
  EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &tensor, 1, 0),
                 ALTGRAD_INVALID, "tensors[0].group is 0, not in [0, 0)");
}

TEST(Runtime, TheSizeOfATensorsStructIsTheWayToTheNext) {
  struct Later {
    altgrad_tensor known;
    int64_t more[5];
  };
  Later list[] = {{declared(5), {}}, {declared(6, 1), {}}};
  list[0].known.size = list[1].known.size = sizeof(Later);
  PlanPointer plan = planSgd();
  ASSERT_ALTGRAD(altgrad_bind_tensors(plan.get(), &list[0].known, 2, 2));
  EXPECT_EQ(rowOf(plan, 1)[ALTGRAD_ROW_NUMEL], 6u);
  EXPECT_EQ(rowOf(plan, 1)[ALTGRAD_ROW_GROUP], 1u);
  list[1].known.size = sizeof(altgrad_tensor);
  EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &list[0].known, 2, 2),
                 ALTGRAD_INVALID, "tensors[1].size is 88, the first's 128");
  for (uint64_t size : {uint64_t(0), uint64_t(1), uint64_t(63), UINT64_MAX}) {
    list[0].known.size = size;
    EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &list[0].known, 1, 1),
                   ALTGRAD_INVALID, "not sizeof(altgrad_tensor), which is 88");
  }
}

//===-- Sets -----------------------------------------------------------------//

TEST(Runtime, TensorsComeSetBySet) {
  EXPECT_REFUSED(declare(planSets(), {declared(5, 0, 1), declared(6, 1, 0)}),
                 ALTGRAD_INVALID,
                 "tensors[1].set is 0, not in [1, 1]: tensors come set by set");
}

TEST(Runtime, AGroupIsOfOneSetWhereItsScalarsAre) {
  EXPECT_REFUSED(
      declare(planSets(), {declared(5, 2, 0), declared(6, 2, 1)}),
      ALTGRAD_INVALID,
      "tensors[1] is of set 1, but its group 2 has tensors of set 0");
}

TEST(Runtime, AnOffsetIsAtAWholeBlock) {
  PlanPointer plan = planSets();
  altgrad_tensor first = declared(70), second = declared(70, 1, 1);
  first.offset = 5; // set 0 has no blocks
  second.offset = 32;
  first.whole = 100, second.whole = 102;
  ASSERT_ALTGRAD(declare(plan, {first, second}));
  second.whole = 103;
  EXPECT_REFUSED(declare(plan, {first, second}), ALTGRAD_INVALID,
                 "tensors[1], end of the slice, is 102, not a multiple of 32, "
                 "the elements of a block in set 1");
  second.whole = 118;
  second.offset = 48;
  EXPECT_REFUSED(declare(plan, {first, second}), ALTGRAD_INVALID,
                 "tensors[1].offset is 48, not a multiple of 32, the elements "
                 "of a block in set 1");
}

TEST(Runtime, AnOffsetIsAtAWholeBlockOfASweepThatStoresNonePerBlock) {
  PlanPointer plan = planSgd();
  altgrad::runtime::Manifest manifest = plan->bundle->manifest();
  manifest.phases.back().block = 64;
  altgrad_tensor tensor = declared(70);
  tensor.offset = 128;
  tensor.whole = 198;
  ASSERT_ALTGRAD(altgrad::runtime::checkTensors(manifest, {tensor}, 1));
  tensor.offset = 32;
  EXPECT_REFUSED(altgrad::runtime::checkTensors(manifest, {tensor}, 1),
                 ALTGRAD_INVALID,
                 "tensors[0].offset is 32, not a multiple of 64, the elements "
                 "of a block in set 0");
}

} // namespace
