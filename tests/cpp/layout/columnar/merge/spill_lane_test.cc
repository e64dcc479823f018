#include "layout/columnar/merge/spill_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/memory/memory_pool.h"
#include "layout/columnar/format/page_examples.h"
#include "test_directory.h"

namespace topicdb::columnar {
namespace {

constexpr std::size_t kChunkBytes = 4'000;
constexpr std::size_t kExtentBytes = std::size_t{1} << 20;  // that a part takes of the file at once

class SpillLaneTest : public ::testing::Test {
 protected:
  void Add(const Row& row, SpillPart* part) {
    const Status added = lane_.Add(
        {row.serial, row.index, 0},
        {StreamId{row.stream}, row.topic, row.time, Serial{row.serial}, row.index, row.value},
        part);
    ASSERT_TRUE(added.ok()) << added.message();
  }
  // Adds messages of three topics, whose serials and indexes fall and rise.
  Rows AddMany(std::uint32_t count, SpillPart* part) {
    Rows rows;
    for (std::uint32_t i = 0; i < count; ++i) {
      rows.push_back({1 + i % 3, "t/" + std::to_string(i % 3), i, 1 + (count - i) / 4, i % 4,
                      "value " + std::to_string(i)});
      Add(rows.back(), part);
    }
    return rows;
  }
  // Writes a part with one value of this size.
  SpillPart WriteOne(std::uint64_t serial, std::size_t value_size) {
    SpillPart part;
    Add({1, "t", 5, serial, 0, std::string(value_size, 'v')}, &part);
    EXPECT_TRUE(lane_.Write(&part).ok());
    return part;
  }
  std::shared_ptr<const Page> Read(const SpillPart::Piece& chunk) {
    const auto page = lane_.Read(chunk, memory_.Take(chunk.bytes));
    EXPECT_TRUE(page.ok()) << page.status().message();
    return page.value();
  }
  Rows AllRows(const SpillPart& part) {
    Rows rows;
    for (const SpillPart::Piece& chunk : part.chunks) {
      const Rows of_chunk = RowsOf(*Read(chunk));
      rows.insert(rows.end(), of_chunk.begin(), of_chunk.end());
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  const TestDirectory directory_;
  SpillLane lane_{directory_ / "", kChunkBytes};
  MemoryPool memory_{0};
};

TEST_F(SpillLaneTest, WhatIsNotWrittenYetIsTakenAsAPage) {
  SpillPart part;
  Rows rows = AddMany(30, &part);
  EXPECT_TRUE(part.chunks.empty());
  EXPECT_GT(part.staged_bytes(), 0U);
  const auto page = lane_.TakeStaged(&part).value();
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.serial, a.index) < std::pair(b.serial, b.index);
  });
  EXPECT_EQ(RowsOf(*page), rows) << "in the order of commits";
  EXPECT_EQ(lane_.TakeStaged(&part).value(), nullptr);
  EXPECT_EQ(lane_.rows_written(), 0U);
  EXPECT_EQ(lane_.bytes_written(), 0U);
}

TEST_F(SpillLaneTest, WritesAChunkWhenItIsFull) {
  SpillPart part;
  Rows rows = AddMany(500, &part);
  const std::size_t chunks = part.chunks.size();
  EXPECT_GT(chunks, 3U);
  EXPECT_LT(lane_.rows_written(), 500U) << "the last rows are staged";
  ASSERT_TRUE(lane_.Write(&part).ok());
  EXPECT_EQ(part.chunks.size(), chunks + 1);
  EXPECT_EQ(lane_.rows_written(), 500U);
  std::size_t bytes = 0;
  for (const SpillPart::Piece& chunk : part.chunks) bytes += chunk.bytes;
  EXPECT_EQ(lane_.bytes_written(), bytes);
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(AllRows(part), rows);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "")) << "its file has no name";
}

TEST_F(SpillLaneTest, WithNothingToWriteItWritesNothing) {
  SpillPart part;
  ASSERT_TRUE(lane_.Write(&part).ok());
  AddMany(3, &part);
  ASSERT_TRUE(lane_.Write(&part).ok());
  ASSERT_TRUE(lane_.Write(&part).ok());
  EXPECT_EQ(part.chunks.size(), 1U);
}

TEST_F(SpillLaneTest, ATopicThatComesAgainAtOnceIsKeptOnce) {
  SpillPart part;
  Add({1, "topic", 1, 1, 0, ""}, &part);
  Add({1, "topic", 2, 1, 1, ""}, &part);
  EXPECT_EQ(part.bytes, "topic");
  Add({2, "topic", 3, 1, 2, ""}, &part);
  EXPECT_EQ(part.topics.size(), 2U) << "of another stream it is another topic";
  const auto page = lane_.TakeStaged(&part).value();
  EXPECT_EQ(
      RowsOf(*page),
      (Rows{{1, "topic", 1, 1, 0, ""}, {1, "topic", 2, 1, 1, ""}, {2, "topic", 3, 1, 2, ""}}));
}

TEST_F(SpillLaneTest, APartKnowsTheMemoryThatItWillTake) {
  SpillPart part;
  AddMany(500, &part);
  ASSERT_TRUE(lane_.Write(&part).ok());
  std::size_t memory = 0;
  for (const SpillPart::Piece& chunk : part.chunks) memory += Read(chunk)->memory_bytes();
  const std::size_t sorting = 500 * sizeof(MergedRow);
  EXPECT_LE(memory + sorting, part.memory + part.chunks.size() * (sizeof(Page) + 100));
  EXPECT_LT(part.memory, 2 * (memory + sorting));
  part.FreeStaged();
  EXPECT_EQ(part.staged_bytes(), 0U);
}

TEST_F(SpillLaneTest, ChunksOfAPartLieInItsOwnExtents) {
  SpillPart first;
  SpillPart second;
  for (int i = 0; i < 3; ++i) {
    AddMany(10, &first);
    ASSERT_TRUE(lane_.Write(&first).ok());
    AddMany(10, &second);
    ASSERT_TRUE(lane_.Write(&second).ok());
  }
  for (const SpillPart& part : {first, second}) {
    ASSERT_EQ(part.extents.size(), 1U);
    const SpillPart::Piece& extent = part.extents.front();
    EXPECT_EQ(extent.bytes, kExtentBytes);
    std::uint64_t end = extent.offset;
    for (const SpillPart::Piece& chunk : part.chunks) {
      EXPECT_EQ(chunk.offset, end) << "one behind the other";
      end = chunk.offset + chunk.bytes;
    }
  }
  EXPECT_NE(first.extents.front().offset, second.extents.front().offset);
}

TEST_F(SpillLaneTest, WhatIsReadMakesPlaceForWhatIsWritten) {
  const SpillPart first = WriteOne(1, 60);
  const SpillPart second = WriteOne(2, 60);
  ASSERT_EQ(first.extents.size(), 1U);
  lane_.Reuse(first);
  const SpillPart third = WriteOne(3, 60);
  ASSERT_EQ(third.extents.size(), 1U);
  EXPECT_EQ(third.extents.front().offset, first.extents.front().offset);
  EXPECT_NE(third.extents.front().offset, second.extents.front().offset);
  EXPECT_EQ(Read(third.chunks.front())->serial(0), Serial{3});
  EXPECT_EQ(Read(second.chunks.front())->serial(0), Serial{2});
}

TEST_F(SpillLaneTest, ARowLargerThanAnExtentHasOneOfItsOwn) {
  const SpillPart large = WriteOne(1, 3 * kExtentBytes);
  ASSERT_EQ(large.extents.size(), 1U);
  EXPECT_GT(large.extents.front().bytes, 3 * kExtentBytes);
  EXPECT_EQ(Read(large.chunks.front())->value(0).size(), 3 * kExtentBytes);
  lane_.Reuse(large);
  const SpillPart small = WriteOne(2, 60);
  EXPECT_EQ(small.extents.front().offset, large.extents.front().bytes) << "it is not used again";
  EXPECT_EQ(Read(small.chunks.front())->serial(0), Serial{2});
}

TEST_F(SpillLaneTest, TheSampleIsOneOfAllKeys) {
  SpillPart few;
  AddMany(64, &few);
  EXPECT_EQ(few.sample.size(), 64U);
  EXPECT_EQ(few.rows_added, 64U);
  SpillPart many;
  constexpr std::uint64_t kMany = 20'000;
  for (std::uint64_t key = 0; key < kMany; ++key) {
    Add({1, "t", 0, 1 + key, 0, ""}, &many);
  }
  EXPECT_EQ(many.rows_added, kMany);
  ASSERT_EQ(many.sample.size(), 64U);
  std::sort(many.sample.begin(), many.sample.end());
  EXPECT_LE(many.sample.back().major, kMany);
  for (const std::size_t quarter : {1, 2, 3}) {
    const std::uint64_t key = many.sample[16 * quarter].major;
    EXPECT_GT(key, kMany * (quarter - 1) / 4);
    EXPECT_LT(key, kMany * (quarter + 1) / 4);
  }
}

TEST_F(SpillLaneTest, APieceThatIsNoChunkIsAnErrorThatNamesTheFile) {
  const SpillPart part = WriteOne(1, 60);
  SpillPart::Piece piece = part.chunks.front();
  piece.bytes -= 8;
  const auto other = lane_.Read(piece, memory_.Take(piece.bytes));
  EXPECT_EQ(other.status().code(), Code::kCorruption);
  EXPECT_NE(other.status().message().find(directory_ / ""), std::string::npos)
      << other.status().message();
  piece.offset += 100 * kExtentBytes;
  const auto behind = lane_.Read(piece, memory_.Take(piece.bytes));
  EXPECT_EQ(behind.status().code(), Code::kStorage);
  EXPECT_NE(behind.status().message().find("shorter"), std::string::npos)
      << behind.status().message();
}

}  // namespace
}  // namespace topicdb::columnar
