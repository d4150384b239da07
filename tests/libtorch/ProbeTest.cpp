// Whether torch's objects are known again by their words is tried out, and the trial sees where they would not be.
#include "core/Tensor.h"

#include <gtest/gtest.h>

using namespace altgrad::core;

TEST(Probe, AllWordsTellTheLayoutsOfThisTorch) { EXPECT_EQ(dimsInWords(), 5); }

TEST(Probe, WordsThatLackSomethingAreNotEnough) {
  EXPECT_EQ(dimsInWords(1), -1) << "a storage alone";
  EXPECT_EQ(dimsInWords(ownWords), -1) << "no dtype";
  int64_t before = -1;
  for (size_t words = ownWords; words <= ownWords + sharedWords; ++words) {
    const int64_t dims = dimsInWords(words);
    EXPECT_LE(before, dims) << "more words tell no less";
    before = dims;
  }
}
