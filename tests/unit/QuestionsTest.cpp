// What front ends ask of a bundle, and how they ask.
#include "Sgd.h"

#include <cstddef>
#include <cstring>

namespace {

TEST(Questions, BitsOfFormats) {
  EXPECT_EQ(altgrad_format_bits("f32"), 32);
  EXPECT_EQ(altgrad_format_bits("altgrad.e7m8"), 16);
  EXPECT_EQ(altgrad_format_bits("ocp.e2m1"), 4);
  EXPECT_EQ(altgrad_format_bits("f31"), 0);
  EXPECT_EQ(altgrad_format_even("ocp.e2m1"), ALTGRAD_EVEN_LOW);
  EXPECT_EQ(altgrad_format_even("torchao4"), ALTGRAD_EVEN_HIGH);
  EXPECT_EQ(altgrad_format_even("torchao4u"), ALTGRAD_EVEN_HIGH);
  EXPECT_EQ(altgrad_format_even("bnb8"), ALTGRAD_UNPACKED);
  EXPECT_EQ(altgrad_format_even(nullptr), ALTGRAD_UNPACKED);
  EXPECT_EQ(altgrad_format_bits(nullptr), 0);
}

TEST(Questions, MeaningsOfScaledPresets) {
  EXPECT_STREQ(altgrad_scaled_preset("mxfp8"), "ocp.e4m3fn:32:ocp.e8m0");
  EXPECT_EQ(altgrad_scaled_preset("ocp.e4m3fn"), nullptr);
  EXPECT_EQ(altgrad_scaled_preset(nullptr), nullptr);
}

TEST(Bundle, StreamsAreAnsweredInTheirOrder) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  EXPECT_EQ(altgrad_set_count(bundle.get()), 2);
  ASSERT_EQ(altgrad_stream_count(bundle.get()), 5);
  altgrad_stream_info info{};
  info.size = sizeof info;
  ASSERT_ALTGRAD(altgrad_stream_at(bundle.get(), 4, &info));
  EXPECT_STREQ(info.name, "most_1");
  EXPECT_STREQ(info.key, "most");
  EXPECT_STREQ(info.format, "f32");
  EXPECT_EQ(info.role, ALTGRAD_ROLE_STATE);
  EXPECT_EQ(info.access, ALTGRAD_OUT);
  EXPECT_EQ(info.set, 1);
  EXPECT_EQ(info.bits, 32);
  EXPECT_EQ(info.block, 32);
  ASSERT_ALTGRAD(altgrad_stream_at(bundle.get(), 0, &info));
  EXPECT_EQ(info.role, ALTGRAD_ROLE_GRAD);
  EXPECT_EQ(info.access, ALTGRAD_IN);
}

TEST(Bundle, ScalarsAreAnsweredWithTheirDefaults) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  ASSERT_EQ(altgrad_scalar_count(bundle.get()), 6);
  altgrad_scalar_info info{};
  info.size = sizeof info;
  ASSERT_ALTGRAD(altgrad_scalar_at(bundle.get(), 1, &info));
  EXPECT_STREQ(info.name, "rate");
  EXPECT_EQ(info.type, ALTGRAD_F64);
  EXPECT_EQ(info.bytes, 8);
  EXPECT_EQ(info.scope, ALTGRAD_PER_GROUP);
  EXPECT_EQ(info.set, 0);
  EXPECT_EQ(info.has_default, 1);
  EXPECT_EQ(info.value, 0.25);
  ASSERT_ALTGRAD(altgrad_scalar_at(bundle.get(), 4, &info));
  EXPECT_STREQ(info.key, "step");
  EXPECT_EQ(info.role, ALTGRAD_ROLE_STEP);
  EXPECT_EQ(info.type, ALTGRAD_I64);
  EXPECT_EQ(info.scope, ALTGRAD_PER_TENSOR);
  EXPECT_EQ(info.has_default, 0);
  ASSERT_ALTGRAD(altgrad_scalar_at(bundle.get(), 5, &info));
  EXPECT_EQ(info.scope, ALTGRAD_PER_STEP);
  EXPECT_EQ(info.set, -1);
  EXPECT_EQ(info.bytes, 4);
}

TEST(Bundle, PhasesAndExchangesAreAnswered) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  ASSERT_EQ(altgrad_phase_count(bundle.get()), 7);
  altgrad_phase_info phase{};
  phase.size = sizeof phase;
  ASSERT_ALTGRAD(altgrad_phase_at(bundle.get(), 6, &phase));
  EXPECT_STREQ(phase.name, "update_1");
  EXPECT_EQ(phase.kind, ALTGRAD_SWEEP);
  EXPECT_EQ(phase.set, 1);
  EXPECT_EQ(phase.read, 12);
  EXPECT_EQ(phase.written, 8.125);
  EXPECT_EQ(phase.once, 0);
  EXPECT_EQ(altgrad_row_multiple(bundle.get(), 1), 1) << "no tiles";
  ASSERT_ALTGRAD(altgrad_phase_at(bundle.get(), 2, &phase));
  EXPECT_EQ(phase.kind, ALTGRAD_TOTAL);
  EXPECT_EQ(phase.once, 1);
  EXPECT_EQ(phase.set, -1);
  altgrad_exchange_info exchange = {sizeof exchange, 0, 0};
  altgrad_exchange_word word = {sizeof word, 0, 0};
  ASSERT_ALTGRAD(altgrad_exchange_at(bundle.get(), 0, &exchange));
  EXPECT_EQ(exchange.phase, 3);
  EXPECT_EQ(exchange.words, 1);
  ASSERT_ALTGRAD(altgrad_exchange_word_at(bundle.get(), 0, 0, &word));
  EXPECT_EQ(word.offset, 8u);
  EXPECT_EQ(altgrad_exchange_count(loadSgd().get()), 0);
}

TEST(Bundle, SaysItsSumsOverTensors) {
  BundlePointer bundle = loadSgd();
  altgrad_partial_info sum{};
  sum.size = sizeof sum;
  ASSERT_ALTGRAD(altgrad_partial_info_at(bundle.get(), 0, &sum));
  EXPECT_EQ(sum.set, 0);
  EXPECT_EQ(sum.phase, 3);
  EXPECT_EQ(sum.reduction, ALTGRAD_MAX);
  EXPECT_REFUSED(altgrad_partial_info_at(bundle.get(), 1, &sum), ALTGRAD_INVALID, "partial 1, there are 1");
}

TEST(Bundle, IndexesOutOfRangeAreRefused) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  altgrad_stream_info stream{};
  altgrad_exchange_word word{};
  stream.size = sizeof stream;
  word.size = sizeof word;
  EXPECT_REFUSED(altgrad_stream_at(bundle.get(), 5, &stream), ALTGRAD_INVALID,
                 "altgrad_stream_at: stream 5, there are 5");
  EXPECT_REFUSED(altgrad_stream_at(bundle.get(), -1, &stream), ALTGRAD_INVALID,
                 "stream -1, there are 5");
  EXPECT_REFUSED(altgrad_exchange_word_at(bundle.get(), 0, 1, &word),
                 ALTGRAD_INVALID, "word 1, there are 1");
  EXPECT_REFUSED(altgrad_exchange_word_at(bundle.get(), INT64_MAX, 0, &word),
                 ALTGRAD_INVALID, "exchange 9223372036854775807, there are 1");
}

// No byte behind the struct that the caller knows is written, no member left
// out of it, and `size` stays the caller's.
TEST(Bundle, TheCallersStructMayBeShorterOrLonger) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  altgrad_scalar_info whole{};
  whole.size = sizeof whole;
  ASSERT_ALTGRAD(altgrad_scalar_at(bundle.get(), 1, &whole));
  for (uint64_t size : {uint64_t(8), uint64_t(20),
                        uint64_t(offsetof(altgrad_scalar_info, value)),
                        uint64_t(sizeof whole), uint64_t(100), UINT64_MAX}) {
    union {
      altgrad_scalar_info info;
      unsigned char bytes[128];
    } given;
    memset(given.bytes, 0xA5, sizeof given);
    given.info.size = size;
    ASSERT_ALTGRAD(altgrad_scalar_at(bundle.get(), 1, &given.info));
    EXPECT_EQ(given.info.size, size);
    EXPECT_EQ(given.info.name == whole.name, size > 8);
    EXPECT_EQ(given.info.has_default == 1, size > 20);
    EXPECT_EQ(given.info.value == 0.25, size >= sizeof whole);
    for (size_t i = std::min(size, sizeof whole); i < sizeof given; ++i)
      ASSERT_EQ(given.bytes[i], 0xA5) << size << " " << i;
  }
}

TEST(Bundle, QuestionsWithoutASizeOrAStructAreRefused) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  altgrad_phase_info info{};
  for (uint64_t size : {0, 1, 7}) {
    info.size = size;
    EXPECT_REFUSED(altgrad_phase_at(bundle.get(), 0, &info), ALTGRAD_INVALID,
                   "not the size of the struct");
  }
  info.size = sizeof info;
  EXPECT_REFUSED(altgrad_phase_at(nullptr, 0, &info), ALTGRAD_INVALID,
                 "altgrad_phase_at: bundle is NULL");
  EXPECT_REFUSED(altgrad_phase_at(bundle.get(), 0, nullptr), ALTGRAD_INVALID,
                 "out is NULL");
  EXPECT_EQ(altgrad_stream_at(nullptr, 0, nullptr), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_scalar_at(nullptr, 0, nullptr), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_exchange_at(nullptr, 0, nullptr), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_exchange_word_at(nullptr, 0, 0, nullptr), ALTGRAD_INVALID);
  for (auto count :
       {altgrad_set_count, altgrad_stream_count, altgrad_scalar_count,
        altgrad_phase_count, altgrad_exchange_count})
    EXPECT_EQ(count(nullptr), 0);
}

} // namespace
