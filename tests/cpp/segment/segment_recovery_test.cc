#include "segment/segment_recovery.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "base/file/files.h"
#include "segment/segment_files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

constexpr QueueId kQueue{7};
constexpr std::uint64_t kHeader = 64;

class SegmentRecoveryTest : public testing::Test {
 protected:
  SegmentRecoveryTest() { std::filesystem::create_directory(log_); }

  FoundSegments Find(const std::optional<LogEnd>& known_end = std::nullopt,
                     bool look_only = false) const {
    auto found = FindSegments({log_, format_, queue_, 0}, known_end, look_only);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return std::move(found).value();
  }
  std::string PathOf(std::uint64_t number) const { return log_ + "/" + format_->FileName(number); }
  // Writes a segment, and returns where its items end.
  SegmentEnd Write(const SegmentIdentity& identity, const std::vector<Items>& appends,
                   bool sealed) const {
    return WriteSegment(PathOf(identity.number), *format_, identity, appends, sealed).back();
  }
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    const auto names = ListDirectory(log_).value();
    for (const std::string& name : names) {
      files[name] = ReadFile(log_ + "/" + name, std::size_t{10} << 20).value();
    }
    return files;
  }

  const TestDirectory directory_;
  const std::string log_ = directory_ / "log";
  const SegmentFormat* format_ = &NativeSegmentFormat();
  QueueId queue_ = kQueue;
};

// Returns the name of the file and the numbers of the lost items.
std::string Told(const LogDamage& damage) {
  return std::filesystem::path(damage.path).filename().string() + " [" +
         std::to_string(damage.first_sequence) + ", " + std::to_string(damage.end_sequence) + ")";
}

bool Says(const LogDamage& damage, std::string_view what) {
  return damage.what.find(what) != std::string::npos;
}

TEST_F(SegmentRecoveryTest, AnEmptyDirectoryHasNoSegments) {
  const FoundSegments found = Find();
  EXPECT_TRUE(found.segments.empty());
  EXPECT_TRUE(found.damage.empty());
  EXPECT_EQ(found.next_number, 1U);
  EXPECT_EQ(found.previous_end, 1U);
}

TEST_F(SegmentRecoveryTest, ADirectoryThatIsMissingIsAnError) {
  const auto found = FindSegments({directory_ / "none", format_, kQueue, 0}, std::nullopt, false);
  EXPECT_EQ(found.status().code(), Code::kStorage);
}

TEST_F(SegmentRecoveryTest, FindsSealedSegmentsAndCountsWhatIsBeforeThem) {
  const SegmentIdentity identities[] = {{9, 5, 2, kQueue}, {10, 7, 7, kQueue}, {11, 8, 8, kQueue}};
  const SegmentEnd ends[] = {Write(identities[0], {{"a", "bb"}}, true),
                             Write(identities[1], {{"c"}}, true),
                             Write(identities[2], {{"d"}, {"e"}}, true)};
  ASSERT_TRUE(WriteFileAtomically(log_ + "/12.segment", "not a segment's name").ok());
  const auto before = Files();
  const FoundSegments found = Find();
  ASSERT_EQ(found.segments.size(), 3U);
  std::uint64_t bytes = 0;
  std::uint64_t items = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const SegmentState& state = found.segments[i];
    EXPECT_EQ(state.identity, identities[i]);
    EXPECT_EQ(state.path, PathOf(identities[i].number));
    EXPECT_TRUE(state.sealed);
    EXPECT_EQ(state.end.offset, ends[i].offset);
    EXPECT_EQ(state.end.sequence, ends[i].sequence);
    EXPECT_EQ(state.end.payload_bytes, ends[i].payload_bytes);
    EXPECT_EQ(state.end.weight, ends[i].weight);
    EXPECT_EQ(state.weight_before, bytes);
    EXPECT_EQ(state.items_before, items);
    bytes += state.end.offset - kHeader;
    items += state.end.sequence - state.identity.first_sequence;
  }
  EXPECT_EQ(found.next_number, 12U);
  EXPECT_EQ(found.previous_end, 10U);
  EXPECT_TRUE(found.damage.empty()) << "what was before the first may have been freed";
  EXPECT_EQ(Files(), before);
}

TEST_F(SegmentRecoveryTest, ALogThatWasClosedGoesOnInItsLastSegment) {
  const SegmentEnd end = Write({1, 1, 1, kQueue}, {{"a"}, {"b"}}, /*sealed=*/false);
  FlipBit(PathOf(1), kHeader + 40);  // its frames are not read
  const auto before = Files();
  const FoundSegments found = Find(LogEnd{1, end});
  ASSERT_EQ(found.segments.size(), 1U);
  EXPECT_FALSE(found.segments[0].sealed);
  EXPECT_EQ(found.segments[0].end.offset, end.offset);
  EXPECT_EQ(found.segments[0].end.sequence, 3U);
  EXPECT_EQ(found.segments[0].end.payload_bytes, 2U);
  EXPECT_TRUE(found.damage.empty());
  EXPECT_EQ(Files(), before);
}

TEST_F(SegmentRecoveryTest, ALogThatWasNotClosedIsSealed) {
  const SegmentEnd end = Write({1, 1, 1, kQueue}, {{"a", "bb"}}, /*sealed=*/false);
  for (const bool other_end : {true, false}) {
    ASSERT_EQ(truncate(PathOf(1).c_str(), static_cast<off_t>(end.offset)), 0);
    const auto known = other_end ? std::optional(LogEnd{1, {end.offset - 8, 1, 0}}) : std::nullopt;
    const FoundSegments found = Find(known);
    ASSERT_EQ(found.segments.size(), 1U);
    EXPECT_TRUE(found.segments[0].sealed);
    EXPECT_EQ(found.segments[0].end.offset, end.offset);
    EXPECT_TRUE(found.damage.empty());
    const std::string bytes = Files().begin()->second;
    const std::string_view footer = std::string_view(bytes).substr(end.offset);
    EXPECT_EQ(format_->DecodeFooter({1, 1, 1, kQueue}, end.offset, footer),
              (SegmentFooter{1, 3, 3, end.offset}));
  }
}

TEST_F(SegmentRecoveryTest, AnAppendThatWasCutOffIsGoneAsAWhole) {
  const std::string large(700'000, 'x');  // each becomes a frame of its own
  for (const bool at_a_frame : {true, false}) {
    unlink(PathOf(1).c_str());
    const auto ends = WriteSegment(PathOf(1), *format_, {1, 1, 1, kQueue},
                                   {{"a", "b"}, {large, large, large}}, /*sealed=*/false);
    const std::uint64_t frame = (ends[2].offset - ends[1].offset) / 3;
    const std::uint64_t size = ends[2].offset - (at_a_frame ? frame : 10);
    ASSERT_EQ(truncate(PathOf(1).c_str(), static_cast<off_t>(size)), 0);
    const FoundSegments found = Find();
    ASSERT_EQ(found.segments.size(), 1U);
    EXPECT_EQ(found.segments[0].end.offset, ends[1].offset);
    EXPECT_EQ(found.segments[0].end.sequence, 3U);
    EXPECT_EQ(found.segments[0].end.payload_bytes, 2U);
    ASSERT_EQ(found.damage.size(), 1U);
    EXPECT_EQ(found.damage[0].path, PathOf(1));
    EXPECT_EQ(found.damage[0].items(), 0U) << "nobody was told that it was appended";
    EXPECT_TRUE(Says(found.damage[0], std::to_string(size - ends[1].offset) + " bytes"));
    EXPECT_EQ(Files().begin()->second.size(), ends[1].offset + format_->footer_bytes());
  }
}

TEST_F(SegmentRecoveryTest, ATailThatIsDamagedIsToldOnce) {
  const SegmentEnd end = Write({1, 1, 1, kQueue}, {{"a", "b"}, {"c", "d"}}, /*sealed=*/false);
  FlipBit(PathOf(1), end.offset - 1);
  Write({2, 5, 5, kQueue}, {{"e"}}, true);
  const FoundSegments found = Find();
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(Told(found.damage[0]), "0000000000000001.segment [3, 5)");
  ASSERT_EQ(found.segments.size(), 2U);
  EXPECT_EQ(found.segments[0].end.sequence, 3U);
  EXPECT_EQ(found.segments[1].items_before, 2U);
}

TEST_F(SegmentRecoveryTest, DamageBeforeWholeFramesIsLeftToReaders) {
  const auto ends =
      WriteSegment(PathOf(1), *format_, {1, 1, 1, kQueue}, {{"a"}, {"b"}, {"c"}}, false);
  FlipBit(PathOf(1), ends[2].offset - 1);
  const FoundSegments found = Find();
  EXPECT_TRUE(found.damage.empty());
  ASSERT_EQ(found.segments.size(), 1U);
  EXPECT_EQ(found.segments[0].end.offset, ends[3].offset);
}

TEST_F(SegmentRecoveryTest, AProcessMayEndBeforeItWritesTheHeader) {
  Write({1, 1, 1, kQueue}, {{"a"}}, true);
  for (const std::string_view header : {"", "TDBSEGM"}) {
    ASSERT_TRUE(WriteFileAtomically(PathOf(2), header).ok());
    const FoundSegments found = Find();
    EXPECT_TRUE(found.damage.empty());
    EXPECT_EQ(found.segments.size(), 1U);
    EXPECT_EQ(found.next_number, 2U) << "the number is used again";
    EXPECT_FALSE(Exists(PathOf(2)));
  }
}

TEST_F(SegmentRecoveryTest, AProcessMayEndBeforeItWritesItems) {
  Write({1, 1, 1, kQueue}, {{"a"}}, true);
  Write({2, 2, 2, kQueue}, {}, false);
  const FoundSegments found = Find();
  EXPECT_TRUE(found.damage.empty());
  EXPECT_EQ(found.segments.size(), 1U);
  EXPECT_EQ(found.next_number, 2U);
  EXPECT_FALSE(Exists(PathOf(2)));
}

TEST_F(SegmentRecoveryTest, AMissingSegmentIsTold) {
  Write({1, 1, 1, kQueue}, {{"a", "b"}}, true);
  Write({3, 8, 5, kQueue}, {{"h"}}, true);  // the numbers from 5 were skipped
  const FoundSegments found = Find();
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(Told(found.damage[0]), "0000000000000002.segment [3, 5)");
  EXPECT_TRUE(Says(found.damage[0], "missing"));
  EXPECT_EQ(found.segments.size(), 2U);
}

TEST_F(SegmentRecoveryTest, TheKnownEndTellsThatTheLastSegmentIsMissing) {
  const LogEnd end{2, {kHeader + 80, 5, 2}};
  FoundSegments found = Find(end);
  EXPECT_TRUE(found.damage.empty()) << "without any segment, the queue must find out";
  EXPECT_EQ(found.next_number, 3U);
  Write({1, 1, 1, kQueue}, {{"a", "b"}}, true);
  found = Find(end);
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(Told(found.damage[0]), "0000000000000002.segment [3, 5)");
  EXPECT_EQ(found.previous_end, 5U);
  EXPECT_EQ(found.next_number, 3U);
}

TEST_F(SegmentRecoveryTest, TheKnownEndTellsThatTheLastSegmentIsShorter) {
  const auto ends = WriteSegment(PathOf(1), *format_, {1, 1, 1, kQueue}, {{"a"}, {"b"}}, false);
  ASSERT_EQ(truncate(PathOf(1).c_str(), static_cast<off_t>(ends[1].offset)), 0);
  const FoundSegments found = Find(LogEnd{1, ends[2]});
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(Told(found.damage[0]), "0000000000000001.segment [2, 3)");
  ASSERT_EQ(found.segments.size(), 1U);
  EXPECT_TRUE(found.segments[0].sealed);
}

TEST_F(SegmentRecoveryTest, WhatIsNoSegmentIsRenamedAndCostsItsItems) {
  Write({1, 1, 1, kQueue}, {{"a", "b"}}, true);
  ASSERT_TRUE(WriteFileAtomically(PathOf(2), "garbage").ok());
  Write({3, 5, 5, kQueue}, {{"e"}}, true);
  const FoundSegments found = Find();
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(Told(found.damage[0]), "0000000000000002.segment [3, 5)");
  EXPECT_TRUE(Says(found.damage[0], "renamed to " + PathOf(2) + ".damaged"));
  EXPECT_EQ(found.segments.size(), 2U);
  EXPECT_FALSE(Exists(PathOf(2)));
  EXPECT_EQ(ReadFile(PathOf(2) + ".damaged", 100).value(), "garbage");
}

TEST_F(SegmentRecoveryTest, ASegmentOfAnotherQueueIsRenamed) {
  Write({1, 1, 1, QueueId{8}}, {{"a"}}, true);
  queue_ = {};
  EXPECT_EQ(Find().segments.size(), 1U) << "if the queue is not known, any is taken";
  queue_ = kQueue;
  const FoundSegments found = Find();
  EXPECT_TRUE(found.segments.empty());
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_TRUE(Says(found.damage[0], "another queue"));
  EXPECT_EQ(found.next_number, 2U) << "its number is not used again";
}

// The frames and the footer tell what the header said. Appends go to another segment.
TEST_F(SegmentRecoveryTest, ADamagedHeaderCostsNothing) {
  const SegmentIdentity identities[] = {
      {1, 1, 1, kQueue}, {2, 3, 3, kQueue}, {3, 1'001, 4, kQueue}};  // a queue skips numbers
  Write(identities[0], {{"a", "b"}}, true);
  Write(identities[1], {{"c"}}, true);
  const SegmentEnd end = Write(identities[2], {{"d"}, {"e"}}, false);
  for (const SegmentIdentity& identity : identities) FlipBit(PathOf(identity.number), 20);
  for (const bool closed : {true, false}) {
    ASSERT_EQ(truncate(PathOf(3).c_str(), static_cast<off_t>(end.offset)), 0);
    const FoundSegments found = Find(closed ? std::optional(LogEnd{3, end}) : std::nullopt);
    ASSERT_EQ(found.segments.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found.segments[i].identity, identities[i]);
      EXPECT_TRUE(found.segments[i].sealed);
    }
    EXPECT_EQ(found.segments[2].end.offset, end.offset);
    ASSERT_EQ(found.damage.size(), 3U);
    for (const LogDamage& damage : found.damage) {
      EXPECT_EQ(damage.items(), 0U);
      EXPECT_TRUE(Says(damage, "header")) << damage.what;
    }
  }
}

TEST_F(SegmentRecoveryTest, ASegmentOfALaterVersionIsNotDamage) {
  Write({1, 1, 1, kQueue}, {{"a"}}, /*sealed=*/true);
  Write({2, 2, 2, kQueue}, {{"b"}}, /*sealed=*/true);
  std::string file = ReadFile(PathOf(1), 1'000).value();
  file[8] = 99;
  std::string crc;
  AppendLittle(&crc, Crc32(file.substr(0, 60)));
  ASSERT_TRUE(WriteFileAtomically(PathOf(1), file.replace(60, 4, crc)).ok());
  const auto before = Files();
  for (const bool look_only : {true, false}) {
    const Status status =
        FindSegments({log_, format_, kQueue, 0}, std::nullopt, look_only).status();
    EXPECT_EQ(status.code(), Code::kSchema);
    EXPECT_NE(status.message().find(PathOf(1)), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("version 99"), std::string::npos) << status.message();
  }
  EXPECT_EQ(Files(), before);
}

TEST_F(SegmentRecoveryTest, WeightsAreFoundInFootersInFramesAndInWhatIsKnown) {
  const SegmentIdentity identity{1, 1, 1, kQueue, /*weighed=*/true};
  for (const bool sealed : {true, false}) {
    for (const bool known : {true, false}) {
      unlink(PathOf(1).c_str());
      const SegmentEnd end = Write(identity, {{"a", "bb"}, {"ccc"}}, sealed);
      EXPECT_EQ(end.weight, 60U);
      const FoundSegments found = Find(known ? std::optional(LogEnd{1, end}) : std::nullopt);
      ASSERT_EQ(found.segments.size(), 1U);
      EXPECT_EQ(found.segments[0].identity, identity);
      EXPECT_EQ(found.segments[0].end.weight, 60U) << sealed << known;
      EXPECT_TRUE(found.damage.empty());
    }
  }
}

TEST_F(SegmentRecoveryTest, WhatIsTornOffWeighsNothing) {
  const SegmentIdentity identity{1, 1, 1, kQueue, /*weighed=*/true};
  const SegmentEnd end = Write(identity, {{"a", "bb"}, {"ccc"}}, /*sealed=*/false);
  ASSERT_EQ(truncate(PathOf(1).c_str(), static_cast<off_t>(end.offset - 1)), 0);
  const FoundSegments found = Find();
  ASSERT_EQ(found.segments.size(), 1U);
  EXPECT_EQ(found.segments[0].end.sequence, 3U);
  EXPECT_EQ(found.segments[0].end.weight, 30U);
}

TEST_F(SegmentRecoveryTest, WithoutItsHeaderASegmentTellsWhetherItsItemsHaveWeights) {
  for (const bool weighed : {false, true}) {
    for (const bool sealed : {false, true}) {
      unlink(PathOf(1).c_str());
      const SegmentEnd end = Write({1, 1, 1, kQueue, weighed}, {{"a", "bb"}, {"ccc"}}, sealed);
      FlipBit(PathOf(1), 40);
      const FoundSegments found = Find();
      ASSERT_EQ(found.segments.size(), 1U);
      EXPECT_EQ(found.segments[0].identity.weighed, weighed);
      EXPECT_EQ(found.segments[0].end.sequence, 4U);
      EXPECT_EQ(found.segments[0].end.weight, end.weight);
      ASSERT_EQ(found.damage.size(), 1U);
      EXPECT_TRUE(Says(found.damage[0], "header"));
    }
  }
}

TEST_F(SegmentRecoveryTest, LookingChangesNothing) {
  const SegmentEnd end = Write({1, 1, 1, kQueue}, {{"a"}}, /*sealed=*/false);
  ASSERT_TRUE(File::OpenForWriting(PathOf(1)).value()->WriteAt(end.offset, "torn").ok());
  ASSERT_TRUE(WriteFileAtomically(PathOf(2), "garbage").ok());
  ASSERT_TRUE(WriteFileAtomically(PathOf(3), "TDBSEGM").ok());
  const auto before = Files();
  const FoundSegments seen = Find(std::nullopt, /*look_only=*/true);
  EXPECT_EQ(Files(), before);
  const FoundSegments found = Find();
  EXPECT_NE(Files(), before);
  ASSERT_EQ(seen.segments.size(), 1U);
  EXPECT_EQ(seen.segments[0].end.offset, end.offset);
  EXPECT_TRUE(seen.segments[0].sealed);
  ASSERT_EQ(seen.damage.size(), 2U);
  ASSERT_EQ(found.damage.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(seen.damage[i].what, found.damage[i].what);
}

// Replayq writes such files, and leaves a torn end as it is.
TEST_F(SegmentRecoveryTest, WithoutFootersNothingIsSealedOrCutOff) {
  format_ = &ReplayqSegmentFormat();
  queue_ = {};
  const std::uint64_t first = format_->FirstSequence(1, 0);
  const SegmentEnd end = Write({1, first, 0, {}}, {{"a"}, {"b"}}, true);
  ASSERT_TRUE(File::OpenForWriting(PathOf(1)).value()->WriteAt(end.offset, "\x01\x32").ok());
  Write({3, format_->FirstSequence(3, 0), 0, {}}, {{"c"}}, true);
  const auto before = Files();
  const FoundSegments found = Find();
  EXPECT_EQ(Files(), before);
  ASSERT_EQ(found.segments.size(), 2U);
  EXPECT_TRUE(found.segments[1].sealed);
  EXPECT_EQ(found.segments[0].end.offset, end.offset);
  EXPECT_EQ(found.segments[1].weight_before, end.offset);
  EXPECT_EQ(found.segments[1].items_before, 2U);
  ASSERT_EQ(found.damage.size(), 2U);
  EXPECT_EQ(found.damage[0].items(), 1U) << "what is torn counts as one";
  EXPECT_EQ(Told(found.damage[1]), "0000000002.replaylog [0, 0)") << "by the names of the files";
}

}  // namespace
}  // namespace topicdb
