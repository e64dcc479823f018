#include "store/catalog/retention_file.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/bytes/checked_record.h"
#include "hex.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

TEST(RetentionFile, WhatIsStoredComesBack) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1us, 2, 3us}, {"b/#", 4us}})
                                   .value()
                                   .With({{"b/#", 5us, 6, 7us}, {"é", 8us}})
                                   .value();
  const std::string bytes = EncodeRetention(rules);
  const RetentionRules again = DecodeRetention(bytes, "retention").value();
  EXPECT_EQ(EncodeRetention(again), bytes);
  EXPECT_EQ(again.version(), 1U);
  EXPECT_EQ(again.classes(), rules.classes());
  EXPECT_EQ(again.reserved(), RetentionClassId{3});
  EXPECT_EQ(again.ClassOf("é"), rules.ClassOf("é"));
  EXPECT_EQ(again.Find(RetentionClassId{0})->limits, rules.Find(RetentionClassId{0})->limits);
}

// A file of these rules has had these bytes since the format was released. All later versions must
// read them.
TEST(RetentionFile, GoldenBytes) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1us, 2, 3us}, {"b/#", 4us}})
                                   .value()
                                   .With({{"b/#", 5us, 6, 7us}, {"é", 8us}})
                                   .value();
  const std::string_view golden =
      "5444425245544e0a010103030105060703622f230408000002c3a90200000001230100000000"
      "03612f23f2a57e3a";
  EXPECT_EQ(ToHex(EncodeRetention(rules)), golden);
  EXPECT_EQ(DecodeRetention(FromHex(golden), "retention")->classes(), rules.classes());
}

// Only rules with keep_last need the second version of the format.
TEST(RetentionFile, GoldenBytesWithKeepLast) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1us, 2, 3us, 300}})
                                   .value()
                                   .With({{"b/#", 5us, 6, 7us, 1}})
                                   .value();
  const std::string_view golden =
      "5444425245544e0a02010202030506070103622f230100000000012301000000000003612f2352976968";
  EXPECT_EQ(ToHex(EncodeRetention(rules)), golden);
  const RetentionRules again = DecodeRetention(FromHex(golden), "retention").value();
  EXPECT_EQ(again.classes(), rules.classes());
  EXPECT_EQ(ToHex(EncodeRetention(again)), golden);
}

// Only rules with a layout need the third version of the format.
TEST(RetentionFile, GoldenBytesWithLayouts) {
  const RetentionRules rules =
      RetentionRules::Make({{"a/#", 1us, 2, 3us, 300, LayoutKind::kSkipstream}})
          .value()
          .With({{"b/#", 5us, 6, 7us, 1, LayoutKind::kColumnar}})
          .value();
  const std::string_view golden =
      "5444425245544e0a0301020203050607010203622f2301000000000001230100000000000003612f23"
      "9adc91f7";
  EXPECT_EQ(ToHex(EncodeRetention(rules)), golden);
  const RetentionRules again = DecodeRetention(FromHex(golden), "retention").value();
  EXPECT_EQ(again.classes(), rules.classes());
  EXPECT_EQ(ToHex(EncodeRetention(again)), golden);
}

TEST(RetentionFile, ALayoutThatThereIsNotIsDamage) {
  std::string bytes =
      EncodeRetention(RetentionRules::Make({{"#", 1us, 2, 3us, 0, LayoutKind::kColumnar}}).value());
  bytes.resize(bytes.size() - 4);
  const std::size_t place = bytes.rfind('#') - 2;
  ASSERT_EQ(bytes[place], 2);
  bytes[place] = 3;
  EXPECT_EQ(DecodeRetention(CloseRecord(bytes), "r").status().code(), Code::kCorruption);
}

TEST(RetentionFile, DamageIsNoticed) {
  const std::string bytes =
      EncodeRetention(RetentionRules::Make({{"a/#", 1us}}).value().With({{"b/#", 2us}}).value());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_EQ(DecodeRetention(flipped, "r").status().code(), Code::kCorruption) << i;
    EXPECT_EQ(DecodeRetention(bytes.substr(0, i), "r").status().code(), Code::kCorruption) << i;
  }
  EXPECT_EQ(DecodeRetention(bytes + "x", "r").status().code(), Code::kCorruption);
}

TEST(RetentionFile, ANewerFormatIsNamed) {
  std::string bytes = EncodeRetention(RetentionRules::Make({}).value());
  bytes.resize(bytes.size() - 4);
  bytes[8] = 4;
  EXPECT_EQ(DecodeRetention(CloseRecord(bytes), "r").status().code(), Code::kSchema);
}

TEST(RetentionFile, NumbersThatCannotBe) {
  const auto restore = [](std::uint32_t reserved, std::uint32_t id) {
    RetentionRule rest;
    rest.limits.filter = "#";
    rest.id = RetentionClassId{id};
    return RetentionRules::Restore(1, RetentionClassId{reserved}, {rest}, {}).status().code();
  };
  EXPECT_EQ(restore(1, 0), Code::kOk);
  EXPECT_EQ(restore(0, 0), Code::kCorruption);  // an id is used twice
  EXPECT_EQ(restore(7, 0), Code::kCorruption);  // ids are missing
  EXPECT_EQ(RetentionRules::Restore(1, {}, {}, {}).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb
