// ReplayqSegmentFormat of segment_format.h.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "segment/segment_format.h"

namespace topicdb {
namespace {

using Views = std::vector<std::string_view>;

constexpr std::size_t kHeader = 13;  // of a record of version 1

const SegmentFormat& Format() { return ReplayqSegmentFormat(); }

std::string Records(const Views& items) {
  std::string out;
  Format().EncodeFrames({}, 0, 0, items, &out);
  return out;
}

std::string RecordOfVersion0(std::string_view item) {
  std::string out(1, '\0');
  AppendBig(&out, Crc32(item));
  AppendBig(&out, static_cast<std::uint32_t>(item.size()));
  return out.append(item);
}

Parsed ParseAt(std::uint64_t offset, std::uint64_t expected, std::string_view bytes, Block* block) {
  return Format().Parse({}, offset, expected, bytes, block);
}

Parsed ParseOne(std::string_view bytes) {
  Block block;
  return ParseAt(0, 7, bytes, &block);
}

// As replayq 0.5 writes them.
TEST(ReplayqFormat, TheBytesOfRecords) {
  EXPECT_EQ(Records({"abc", ""}),
            std::string_view("\x01\x32\x24\xb0\x88\x35\x24\x41\xc2\x00\x00\x00\x03"
                             "abc"
                             "\x01\x32\x24\xb0\x88\x00\x00\x00\x00\x00\x00\x00\x00",
                             29));
}

TEST(ReplayqFormat, CountsTheItemsFromTheExpectedOne) {
  const std::string bytes = Records({"a", "", "ccc"});
  Block block;
  block.continues = true;
  const Parsed parsed = ParseAt(50, 7, bytes, &block);
  ASSERT_EQ(parsed.found, Found::kBlock);
  EXPECT_EQ(parsed.bytes, bytes.size());
  EXPECT_EQ(block.items, (Views{"a", "", "ccc"}));
  EXPECT_EQ(block.first_sequence, 7U);
  EXPECT_EQ(block.offset, 50U);
  EXPECT_EQ(block.end_offset, 50 + bytes.size());
  EXPECT_FALSE(block.continues);
}

TEST(ReplayqFormat, ReadsBothVersions) {
  const std::string bytes = RecordOfVersion0("old") + Records({"new"}) + RecordOfVersion0("older");
  Block block;
  ASSERT_EQ(ParseAt(0, 1, bytes, &block).found, Found::kBlock);
  EXPECT_EQ(block.items, (Views{"old", "new", "older"}));
}

TEST(ReplayqFormat, ABlockHasALimitedNumberOfRecords) {
  const std::string bytes = Records(Views(1'500, "x"));
  Block block;
  const Parsed parsed = ParseAt(0, 1, bytes, &block);
  ASSERT_EQ(parsed.found, Found::kBlock);
  EXPECT_EQ(block.items.size(), 1'024U);
  EXPECT_EQ(parsed.bytes, 1'024 * (kHeader + 1));
  const auto rest = std::string_view(bytes).substr(parsed.bytes);
  ASSERT_EQ(ParseAt(parsed.bytes, 1'025, rest, &block).found, Found::kBlock);
  EXPECT_EQ(block.items.size(), 476U);
  EXPECT_EQ(block.end_sequence(), 1'501U);
}

TEST(ReplayqFormat, ABlockEndsBeforeARecordThatIsNotWhole) {
  const std::string good = Records({"a", "b"});
  const std::string next = Records({"c"});
  for (const std::string& behind : {next.substr(0, 1), next.substr(0, kHeader), std::string("x")}) {
    const std::string bytes = good + behind;
    Block block;  // refers to `bytes`
    ASSERT_EQ(ParseAt(0, 1, bytes, &block).found, Found::kBlock);
    EXPECT_EQ(block.items, (Views{"a", "b"}));
    EXPECT_EQ(block.end_offset, good.size());
  }
}

TEST(ReplayqFormat, TellsHowManyBytesARecordNeeds) {
  EXPECT_EQ(ParseOne("").found, Found::kShort);
  EXPECT_EQ(ParseOne("").bytes, 1U);
  for (const bool version1 : {true, false}) {
    const std::string record = version1 ? Records({"item"}) : RecordOfVersion0("item");
    const std::size_t header = version1 ? kHeader : 9;
    for (std::size_t size = 1; size < record.size(); ++size) {
      const Parsed parsed = ParseOne(std::string_view(record).substr(0, size));
      EXPECT_EQ(parsed.found, Found::kShort) << size;
      EXPECT_EQ(parsed.bytes, size < header ? header : record.size()) << size;
    }
  }
}

TEST(ReplayqFormat, ADamagedRecordCountsAsOneItem) {
  const std::string next = Records({"next"});
  std::string damaged = Records({"item"});
  damaged.back() = 'x';
  for (const std::string& behind : {next, std::string(), RecordOfVersion0("next")}) {
    const Parsed parsed = ParseOne(damaged + behind);
    EXPECT_EQ(parsed.found, Found::kDamaged);
    EXPECT_EQ(parsed.bytes, damaged.size());
    EXPECT_EQ(parsed.first_sequence, 7U);
    EXPECT_EQ(parsed.items, 1U);
  }
}

// No checksum covers the length.
TEST(ReplayqFormat, ALengthThatLeadsToNoRecordIsNotTrusted) {
  std::string bytes = Records({"item", "next"});
  --bytes[kHeader - 1];
  EXPECT_EQ(ParseOne(bytes).found, Found::kNothing);
}

TEST(ReplayqFormat, WhatIsNoRecordIsNothing) {
  const std::string record = Records({"item"});
  for (const std::size_t at : {0, 1, 4}) {  // the version, and the magic number
    std::string bytes = record;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
    EXPECT_EQ(ParseOne(bytes).found, Found::kNothing) << at;
  }
  EXPECT_EQ(ParseOne(std::string(20, '\0')).found, Found::kNothing) << "zeros are no item";
  std::string old = RecordOfVersion0("item");
  old.back() = 'x';
  EXPECT_EQ(ParseOne(old).found, Found::kNothing) << "it has no magic number";
}

TEST(ReplayqFormat, FindsWhereTheNextRecordMayBegin) {
  const std::string record = Records({"item"});
  EXPECT_EQ(Format().NextCandidate(0, record), record.size()) << "not the one it stands at";
  EXPECT_EQ(Format().NextCandidate(0, record + record), record.size());
  EXPECT_EQ(Format().NextCandidate(3, "xyz" + record), 3U) << "records are not aligned";
  EXPECT_EQ(Format().NextCandidate(0, ""), 0U);
}

TEST(ReplayqFormat, ASegmentHasNeitherHeaderNorFooter) {
  EXPECT_EQ(Format().header_bytes(), 0U);
  EXPECT_EQ(Format().footer_bytes(), 0U);
  EXPECT_EQ(Format().EncodeHeader({}), "");
  EXPECT_EQ(Format().EncodeFooter({}, {}), "");
  EXPECT_EQ(Format().DecodeFooter({}, 0, ""), std::nullopt);
  const SegmentIdentity identity = Format().DecodeHeader("", 3).value();
  EXPECT_EQ(identity.number, 3U);
  EXPECT_EQ(identity.first_sequence, (std::uint64_t{3} << 32) + 1);
}

TEST(ReplayqFormat, NumbersOfItemsDependOnTheSegment) {
  EXPECT_FALSE(Format().numbers_items());
  EXPECT_EQ(Format().FirstSequence(1, 99), (std::uint64_t{1} << 32) + 1);
  EXPECT_EQ(Format().ItemBytes("abc"), kHeader + 3);
}

}  // namespace
}  // namespace topicdb
