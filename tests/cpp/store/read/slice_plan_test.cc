#include "store/read/slice_plan.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

BlockInfo BlockOf(std::uint64_t first_serial, std::uint64_t last_serial, std::int64_t first_time,
                  std::int64_t last_time, std::uint64_t bytes) {
  BlockInfo block;
  block.first_serial = Serial{first_serial};
  block.last_serial = Serial{last_serial};
  block.first_time = first_time;
  block.last_time = last_time;
  block.size = {bytes / 10, bytes};
  return block;
}

Slice Whole(std::uint64_t after, std::uint64_t until) {
  Slice slice;
  slice.after = Serial{after};
  slice.until = Serial{until};
  return slice;
}

// Expects that each (serial, time) of a grid is in exactly one slice.
void ExpectPartition(const std::vector<Slice>& slices, std::uint64_t after, std::uint64_t until) {
  for (Serial serial{after + 1}; serial <= Serial{until}; ++serial) {
    for (std::int64_t time = 0; time < 100; ++time) {
      int holders = 0;
      for (const Slice& slice : slices) {
        const bool in_commits = serial > slice.after && serial <= slice.until;
        holders += in_commits && Contains(slice.range, time) ? 1 : 0;
      }
      ASSERT_EQ(holders, 1) << "serial " << serial.value() << ", time " << time;
    }
  }
}

TEST(SlicePlan, CutsBetweenCommits) {
  const auto slices = CutBlocks(Whole(0, 45),
                                {BlockOf(21, 30, 0, 99, 100), BlockOf(1, 10, 0, 99, 100),
                                 BlockOf(11, 20, 0, 99, 100), BlockOf(31, 40, 0, 99, 100)},
                                200);
  ASSERT_EQ(slices.size(), 2);
  EXPECT_EQ(slices[0].until, Serial{20});
  EXPECT_EQ(slices[0].bytes, 200);
  EXPECT_EQ(slices[1].until, Serial{45});
  ExpectPartition(slices, 0, 45);
}

TEST(SlicePlan, BlocksThatShareACommitStayTogetherOrAreCutByTime) {
  const std::vector<BlockInfo> blocks = {BlockOf(1, 1, 0, 49, 400), BlockOf(1, 1, 50, 99, 400),
                                         BlockOf(2, 3, 0, 99, 100)};
  const auto one = CutBlocks(Whole(0, 3), blocks, 700);
  ASSERT_EQ(one.size(), 2);
  EXPECT_EQ(one.front().until, Serial{1});
  const auto many = CutBlocks(Whole(0, 3), blocks, 200);
  ASSERT_EQ(many.size(), 5);
  EXPECT_EQ(many[0].range.end, 25);
  EXPECT_EQ(many[1].range.end, 50);
  EXPECT_EQ(many[2].range.end, 75);
  EXPECT_EQ(many[4].after, Serial{1});
  ExpectPartition(many, 0, 3);
}

TEST(SlicePlan, OneMomentIsNotCut) {
  const auto slices = CutBlocks(Whole(3, 9), {BlockOf(5, 5, 7, 7, 1'000)}, 10);
  ASSERT_EQ(slices.size(), 1);
  EXPECT_EQ(slices[0].after, Serial{3});
  EXPECT_EQ(slices[0].until, Serial{9});
}

TEST(SlicePlan, TheLastMomentsThereAreAreCutToo) {
  const std::int64_t max = std::numeric_limits<std::int64_t>::max();
  Slice whole = Whole(0, 1);
  const auto slices = CutBlocks(whole, {BlockOf(1, 1, 0, max, 1'000)}, 250);
  ASSERT_EQ(slices.size(), 4);
  EXPECT_EQ(slices.back().range.end, std::nullopt);
  ExpectPartition(slices, 0, 1);
}

TEST(SlicePlan, ARangeOfTimeCountsOnlyItsPart) {
  Slice whole = Whole(0, 1);
  whole.range = {0, 10};
  const auto slices = CutBlocks(whole, {BlockOf(1, 1, 0, 99, 1'000)}, 200);
  ASSERT_EQ(slices.size(), 1);
  EXPECT_EQ(slices[0].bytes, 100);
}

}  // namespace
}  // namespace topicdb
