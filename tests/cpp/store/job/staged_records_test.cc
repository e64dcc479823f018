#include "store/job/staged_records.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "hex.h"

namespace topicdb {
namespace {

TEST(StagedRecords, HaveTheseKeys) {
  EXPECT_EQ(ToHex(StagedPrefix()), "0f");
  EXPECT_EQ(ToHex(StagedEnd()), "10");
  EXPECT_EQ(ToHex(JobStagedPrefix("ab")), "0f616200");
  EXPECT_EQ(ToHex(JobStagedEnd("ab")), "0f616201");
  const StagedPlaceName name{"x.staged", RetentionClassId{258}};
  EXPECT_EQ(ToHex(StagedBeginRest("x")), "0178");
  EXPECT_EQ(ToHex(StagedFileRest("x")), "0278");
  EXPECT_EQ(ToHex(StagedPartRest(name)), "03782e7374616765640000000102");
  EXPECT_EQ(ToHex(StagedBlocksRest(name, 3)), "04782e737461676564000000010200000003");
  EXPECT_EQ(ToHex(StagedPageRest(name, "p")), "05782e737461676564000000010270");
  EXPECT_EQ(ToHex(StagedChoiceRest({1})),
            "06"
            "01000000000000000000000000000000");
}

TEST(StagedRecords, HaveTheseBytes) {
  EXPECT_EQ(ToHex(Encode(StagedPartRecord{300, 5, 2, 9})), "01ac02050209");
  EXPECT_EQ(ToHex(EncodeStagedBegin(258)), "010201000000000000");
  EXPECT_EQ(ToHex(Encode(StagedFileRecord{{{1, RetentionClassId{2}, 3, 4}}})), "010101020304");
  EXPECT_EQ(ToHex(Encode(StagedChoice{1, {"x", "yz"}})),
            "010100000000000000020178"
            "02797a");
}

TEST(StagedRecords, AreDecodedAsTheyWereEncoded) {
  StagedPartRecord part;
  ASSERT_TRUE(Decode(Encode(StagedPartRecord{300, 5, 2, 9}), &part));
  EXPECT_EQ(part.messages, 300U);
  EXPECT_EQ(part.blocks_bytes, 9U);
  StagedChoice choice;
  ASSERT_TRUE(Decode(Encode(StagedChoice{7, {"x", "y"}}), &choice));
  EXPECT_EQ(choice.epoch, 7U);
  EXPECT_EQ(choice.files, (std::vector<std::string>{"x", "y"}));
  StagedFileRecord file;
  ASSERT_TRUE(Decode(Encode(StagedFileRecord{{{1, RetentionClassId{2}, 3, 4}}}), &file));
  EXPECT_EQ(file.parts.front().retention_class, RetentionClassId{2});
  std::int64_t at = 0;
  ASSERT_TRUE(DecodeStagedBegin(EncodeStagedBegin(77), &at));
  EXPECT_EQ(at, 77);
  RetentionClassId found;
  const StagedPlaceName name{"x.staged", RetentionClassId{5}};
  ASSERT_TRUE(DecodeStagedPartRest(StagedPartRest(name), "x.staged", &found));
  EXPECT_EQ(found, RetentionClassId{5});
  EXPECT_FALSE(DecodeStagedPartRest(StagedPartRest(name), "y.staged", &found));
}

TEST(StagedRecords, WhatIsCutOffOrOfAnotherVersionIsRefused) {
  const std::string encoded = Encode(StagedChoice{7, {"x", "y"}});
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    StagedChoice choice;
    EXPECT_FALSE(Decode(encoded.substr(0, size), &choice)) << size;
  }
  std::string later = encoded;
  later[0] = 2;
  StagedChoice choice;
  EXPECT_FALSE(Decode(later, &choice));
}

// A job whose name begins with that of another one has other keys.
TEST(StagedRecords, JobsHaveKeysOfTheirOwn) {
  EXPECT_LT(JobStagedEnd("a"), JobStagedPrefix("a1"));
  EXPECT_EQ(JobOfStagedKey(JobStagedPrefix("a1") + StagedFileRest("x")), "a1");
  EXPECT_EQ(JobOfStagedKey("\x05"
                           "abc"),
            "");
}

}  // namespace
}  // namespace topicdb
