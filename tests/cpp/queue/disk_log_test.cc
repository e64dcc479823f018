// DiskLog of queue_log.h: the reader that it makes. What else it does is SegmentLog's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file/file.h"
#include "queue/log_items.h"
#include "test_directory.h"

namespace topicdb {
namespace {

constexpr std::uint64_t kHeader = 64;
constexpr std::uint64_t kFrame = 40;  // of an item of one letter

class DiskLogTest : public testing::Test {
 protected:
  // Each segment is full with two appends of one letter.
  DiskLogTest() {
    const SegmentLogOptions options{directory_ / ".", &NativeSegmentFormat(), QueueId{7},
                                    kHeader + 2 * kFrame};
    std::vector<LogDamage> damage;
    log_ = std::make_unique<DiskLog>(
        SegmentLog::Open(options, std::nullopt, /*next_sequence=*/1, &damage).value());
  }
  void AppendEach(const Items& items) {
    for (const std::string& item : items) AppendTo(*log_, {item});
  }
  std::string PathOf(std::size_t index) { return log_->segments().Segments().at(index).path; }
  // Destroys the frame at `offset` of a segment.
  void Damage(std::size_t index, std::uint64_t offset) {
    const auto file = File::OpenForWriting(PathOf(index)).value();
    ASSERT_TRUE(file->WriteAt(offset, std::string(kFrame, 'x')).ok());
  }

  const TestDirectory directory_;
  std::unique_ptr<DiskLog> log_;
};

TEST_F(DiskLogTest, AReaderGoesThroughTheSegments) {
  AppendEach({"a", "b", "c", "d", "e"});
  ASSERT_EQ(log_->segments().Segments().size(), 3U);
  const auto reader = log_->NewReader();
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(reader->segment(), 3U);
  EXPECT_EQ(ReadFrom(*reader, 4), (Items{"d", "e"})) << "back again";
}

TEST_F(DiskLogTest, AReaderFollowsTheAppends) {
  const auto reader = log_->NewReader();
  EXPECT_EQ(ReadFrom(*reader, 1), Items{});
  AppendTo(*log_, {"a"}, /*through=*/false);
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"a"})) << "what is buffered is written out for it";
  AppendTo(*log_, {"b"}, /*through=*/false);
  EXPECT_EQ(ReadFrom(*reader, 2), (Items{"b"})) << "in the same segment";
  AppendTo(*log_, {"c"}, /*through=*/false);
  EXPECT_EQ(ReadFrom(*reader, 3), (Items{"c"})) << "in the next";
}

TEST_F(DiskLogTest, ABlockIsLoadedForEachOfItsItems) {
  AppendTo(*log_, {"a", "b", "c"});
  const auto reader = log_->NewReader();
  for (const std::uint64_t sequence : {2, 3, 1}) {
    ASSERT_EQ(reader->Load({sequence, 0, 0, 0}).value(), ReadEvent::kBlock);
    EXPECT_EQ(reader->block().first_sequence, 1U);
    EXPECT_EQ(reader->block().items.size(), 3U);
  }
}

TEST_F(DiskLogTest, TellsWhatIsBeforeABlockAlsoWhatWasFreed) {
  AppendEach({"a", "b", "c", "d"});
  ASSERT_TRUE(log_->FreeBefore(3).ok());
  ASSERT_EQ(log_->begin_sequence(), 3U);
  const auto reader = log_->NewReader();
  ASSERT_EQ(reader->Load({4, 0, 0, 0}).value(), ReadEvent::kBlock);
  EXPECT_EQ(reader->count_before().bytes, 3 * kFrame);
  EXPECT_EQ(reader->count_before().items, 3U);
  EXPECT_EQ(log_->end_count().bytes, 4 * kFrame);
  EXPECT_EQ(log_->end_count().items, 4U);
}

TEST_F(DiskLogTest, WhatWasFreedIsPassedOver) {
  AppendEach({"a", "b", "c"});
  const auto reader = log_->NewReader();
  ASSERT_TRUE(log_->FreeBefore(3).ok());
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"c"}));
}

TEST_F(DiskLogTest, APositionIsOnlyAHint) {
  AppendEach({"a", "b", "c"});
  for (const LogPosition& position :
       {LogPosition{2, 1, kHeader + kFrame, 2}, LogPosition{2, 1, kHeader, 1},
        LogPosition{2, 1, kHeader + 8, 2}, LogPosition{2, 1, 1'000'000, 2}, LogPosition{2, 2, 0, 2},
        LogPosition{2, 9, kHeader, 1}}) {
    const auto reader = log_->NewReader();
    ASSERT_EQ(reader->Load(position).value(), ReadEvent::kBlock) << position.offset;
    EXPECT_EQ(reader->block().first_sequence, 2U) << position.offset;
  }
}

TEST_F(DiskLogTest, DamagedItemsAreTold) {
  AppendEach({"a", "b", "c"});
  Damage(0, kHeader);
  const auto reader = log_->NewReader();
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"lost [1, 2)", "b", "c"}));
  EXPECT_EQ(ReadFrom(*reader, 2), (Items{"b", "c"})) << "damage before it is not its business";
  ASSERT_EQ(reader->Load({1, 0, 0, 0}).value(), ReadEvent::kLost);
  EXPECT_EQ(reader->lost().path, PathOf(0));
  EXPECT_EQ(reader->lost().what, "is damaged");
}

TEST_F(DiskLogTest, ItemsOfAMissingFileAreTold) {
  AppendEach({"a", "b", "c", "d", "e"});
  ASSERT_EQ(unlink(PathOf(1).c_str()), 0);
  const auto reader = log_->NewReader();
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"a", "b", "lost [3, 5)", "e"}));
  ASSERT_EQ(reader->Load({4, 0, 0, 0}).value(), ReadEvent::kLost);
  EXPECT_EQ(reader->lost().first_sequence, 4U) << "only from the item on that was asked for";
  EXPECT_EQ(reader->lost().path, PathOf(1));
  EXPECT_EQ(reader->lost().what, "is missing");
}

TEST_F(DiskLogTest, AFileThatIsShorterThanItWasCostsItsEnd) {
  AppendEach({"a", "b", "c"});
  ASSERT_EQ(truncate(PathOf(0).c_str(), kHeader + kFrame + 3), 0);
  const auto reader = log_->NewReader();
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"a", "lost [2, 3)", "c"}));
}

TEST_F(DiskLogTest, AFileThatCannotBeReadIsAnError) {
  AppendEach({"a", "b", "c"});
  ASSERT_EQ(unlink(PathOf(0).c_str()), 0);
  std::filesystem::create_directory(PathOf(0));
  const auto reader = log_->NewReader();
  EXPECT_EQ(reader->Load({1, 0, 0, 0}).status().code(), Code::kStorage);
  EXPECT_EQ(ReadFrom(*reader, 3), (Items{"c"}));
}

}  // namespace
}  // namespace topicdb
