// Tensors that are slices of a whole: what is refused, what kernels are told of
// them, and that they get what the whole gets.
#include "Sgd.h"
#include "plan/Plan.h"
#include "plan/Tensors.h"

namespace {

altgrad_tensor sliceOf(int64_t whole, int64_t offset, int64_t numel,
                       int64_t tag = 7) {
  altgrad_tensor tensor = declared(numel);
  tensor.whole = whole, tensor.offset = offset, tensor.tag = tag;
  return tensor;
}

altgrad_status declare(const PlanPointer &plan,
                       const std::vector<altgrad_tensor> &tensors) {
  return altgrad_bind_tensors(plan.get(), tensors.data(),
                              int64_t(tensors.size()), 1);
}

TEST(Runtime, SlicesOfOneWholeMustNotOverlap) {
  PlanPointer plan = planSgd();
  const altgrad_tensor first = sliceOf(9000, 0, 4096),
                       last = sliceOf(9000, 4096, 4904);
  ASSERT_ALTGRAD(declare(plan, {last, sliceOf(9000, 4096, 0), first}));
  ASSERT_ALTGRAD(declare(plan, {first, sliceOf(9000, 0, 4096, 8)}));
  EXPECT_REFUSED(declare(plan, {last, sliceOf(9000, 0, 4097)}), ALTGRAD_INVALID,
                 "tensors[1] and tensors[0] have the tag 7 and overlap: one "
                 "ends at 4097, the other begins at 4096");
  EXPECT_REFUSED(declare(plan, {first, first}), ALTGRAD_INVALID, "overlap");
  EXPECT_REFUSED(declare(plan, {sliceOf(5, 0, 5, 1), declared(5)}),
                 ALTGRAD_INVALID, "have the tag 1 and overlap");
}

TEST(Runtime, ARefusedSliceLeavesThePlanAsItWas) {
  Tensors tensors({5, 6});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  EXPECT_REFUSED(declare(plan, {sliceOf(9, 5, 5)}), ALTGRAD_INVALID,
                 "tensors[0].offset is 5: 5 elements from there on are not "
                 "within its whole of 9");
  ASSERT_ALTGRAD(tensors.run(plan.get()));
}

TEST(Runtime, KernelsKnowTheShapeOfTheWholeAndTheRowsOfTheSlice) {
  PlanPointer plan = planSgd();
  altgrad_tensor slice = sliceOf(12 * 50, 100, 250);
  slice.rows = 6, slice.columns = 50;
  ASSERT_ALTGRAD(declare(plan, {slice}));
  const uint64_t *row = plan->tables.rows.data();
  EXPECT_EQ(row[ALTGRAD_ROW_MATRIX_ROWS], 6u);
  EXPECT_EQ(row[ALTGRAD_ROW_MATRIX_COLUMNS], 50u);
  EXPECT_EQ(row[ALTGRAD_ROW_BATCH], 2u);
  EXPECT_EQ(row[ALTGRAD_ROW_ROWS], 5u);
  EXPECT_EQ(row[ALTGRAD_ROW_LENGTH], 50u);
  slice.offset = 99;
  ASSERT_ALTGRAD(declare(plan, {slice}));
  EXPECT_EQ(plan->tables.rows[ALTGRAD_ROW_ROWS], 1u) << "it cuts rows";
  EXPECT_EQ(plan->tables.rows[ALTGRAD_ROW_LENGTH], 250u);
}

TEST(Runtime, TilesOfASliceAreThoseOfItsRows) {
  PlanPointer plan = planSgd();
  altgrad::runtime::Manifest manifest = plan->bundle->manifest();
  manifest.phases.back().tiles = 32;
  altgrad_tensor slice = sliceOf(100 * 160, 32 * 160, 68 * 160);
  slice.rows = 100, slice.columns = 160;
  ASSERT_ALTGRAD(altgrad::runtime::checkTensors(manifest, {slice}, 1));
  altgrad::runtime::Tables tables;
  altgrad::runtime::layTables(manifest, {slice}, 1, tables);
  EXPECT_EQ(tables.setTiles.back() - tables.setTiles.front(), 3 * 2);
  EXPECT_EQ(tables.chunks.back().first, 64 * 160 + 128);
  slice.offset = 31 * 160;
  EXPECT_REFUSED(altgrad::runtime::checkTensors(manifest, {slice}, 1),
                 ALTGRAD_INVALID,
                 "tensors[0].offset is 4960, not a multiple of 5120, the "
                 "elements of the rows of a block in set 0");
}

TEST(Runtime, ASliceHasTheUnitsOfTheWholeThatLieInIt) {
  PlanPointer plan = planSgd();
  altgrad::runtime::Manifest manifest = plan->bundle->manifest();
  manifest.units.assign(1, altgrad::runtime::UnitKind::Given);
  altgrad_tensor slice = sliceOf(6 * 50, 100, 150);
  slice.units = 6;
  ASSERT_ALTGRAD(altgrad::runtime::checkTensors(manifest, {slice}, 1));
  altgrad::runtime::Tables tables;
  altgrad::runtime::layTables(manifest, {slice}, 1, tables);
  ASSERT_EQ(tables.nrows, 3);
  const uint64_t *second = &tables.rows[size_t(manifest.rowWords)];
  EXPECT_EQ(second[ALTGRAD_ROW_OFFSET], 150u);
  EXPECT_EQ(second[ALTGRAD_ROW_NUMEL], 50u);
  slice.offset = 90;
  EXPECT_REFUSED(altgrad::runtime::checkTensors(manifest, {slice}, 1),
                 ALTGRAD_INVALID,
                 "tensors[0].offset is 90, not a multiple of 50, the elements "
                 "of a unit in set 0");
  slice.offset = 0, slice.units = 1;
  EXPECT_REFUSED(altgrad::runtime::checkTensors(manifest, {slice}, 1),
                 ALTGRAD_INVALID, "tensors[0], end of the slice, is 150, not a");
}

TEST(Runtime, ATensorMayBeDeclaredAbsent) {
  Tensors tensors({5, 6}), before({5, 6});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  std::vector<altgrad_tensor> list{declared(5), declared(6, 1)};
  list[0].absent = 1;
  ASSERT_ALTGRAD(altgrad_bind_tensors(plan.get(), list.data(), 2, 2));
  EXPECT_EQ(plan->running().nrows, 1);
  ASSERT_ALTGRAD(altgrad_bind_present(plan.get(), nullptr, 0));
  EXPECT_EQ(plan->running().nrows, 2);
}

// The hand's bundle calls word 0 of a row a sum before phase 3.
TEST(Runtime, ASumOverASliceHasAWordThatOthersMayJoin) {
  Tensors tensors({5, 4097, 6});
  PlanPointer plan = planSgd();
  int64_t phase = 0;
  int32_t reduction = 0;
  uint64_t offsets[3];
  auto at = [&](int64_t partial, int64_t tensor) {
    return altgrad_partial_at(plan.get(), partial, tensor, &phase, &reduction,
                              &offsets[tensor % 3]);
  };
  EXPECT_EQ(altgrad_partial_count(loadSgd().get()), 1);
  EXPECT_REFUSED(at(0, 0), ALTGRAD_INVALID, "no tensors bound");
  tensors.bind(plan.get());
  for (int64_t tensor : {0, 1, 2})
    ASSERT_ALTGRAD(at(0, tensor));
  EXPECT_EQ(phase, 3);
  EXPECT_EQ(reduction, ALTGRAD_MAX);
  EXPECT_EQ(offsets[0], plan->layout.rowWords);
  EXPECT_EQ(offsets[2], offsets[0] + 16);
  const uint8_t present[] = {1, 0, 1};
  ASSERT_ALTGRAD(altgrad_bind_present(plan.get(), present, 3));
  EXPECT_REFUSED(at(0, 1), ALTGRAD_INVALID, "tensor 1 is absent, or not of set 0");
  ASSERT_ALTGRAD(at(0, 2));
  EXPECT_EQ(offsets[2], offsets[0] + 8);
  EXPECT_REFUSED(at(0, 3), ALTGRAD_INVALID, "tensors are [0, 3)");
  EXPECT_REFUSED(at(1, 0), ALTGRAD_INVALID, "partial 1 of 1");
}

} // namespace
