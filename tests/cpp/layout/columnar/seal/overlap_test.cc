#include "layout/columnar/seal/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace topicdb::columnar {
namespace {

using Indexes = std::vector<std::size_t>;

Indexes UpTo(std::size_t count) {
  Indexes indexes(count);
  std::iota(indexes.begin(), indexes.end(), 0);
  return indexes;
}

const OverlapRule kClosed{2, 16, 8, true};

TEST(Overlap, BlocksInOrderAreLeftAlone) {
  std::vector<TimeSpan> blocks;
  for (std::int64_t i = 0; i < 100; ++i) blocks.push_back({100 * i, 100 * i + 99});
  EXPECT_TRUE(ChooseOverlapping(blocks, {}).empty());
  EXPECT_TRUE(ChooseOverlapping(blocks, kClosed).empty());
  EXPECT_TRUE(ChooseOverlapping({}, {}).empty());
}

TEST(Overlap, EdgesMayOverlap) {
  std::vector<TimeSpan> blocks;
  for (std::int64_t i = 0; i < 100; ++i) blocks.push_back({1'000 * i, 1'000 * i + 1'040});
  EXPECT_TRUE(ChooseOverlapping(blocks, kClosed).empty());
  blocks[50].last += 200;
  EXPECT_EQ(ChooseOverlapping(blocks, kClosed), (Indexes{50, 51}));
}

TEST(Overlap, FourThatCoverOneMomentAreChosen) {
  std::vector<TimeSpan> blocks(3, {0, 1'000});
  blocks.insert(blocks.begin(), {5'000, 6'000});
  EXPECT_TRUE(ChooseOverlapping(blocks, {}).empty());
  blocks.push_back({400, 500});
  EXPECT_EQ(ChooseOverlapping(blocks, {}), (Indexes{1, 2, 3, 4}));
}

TEST(Overlap, BlocksOfOneLevelAreChosenTheLowestFirst) {
  std::vector<TimeSpan> blocks(10, {0, 1'000, 1});
  EXPECT_EQ(ChooseOverlapping(blocks, {}), UpTo(10));
  for (int i = 0; i < 3; ++i) blocks.push_back({0, 1'000, 0});
  EXPECT_EQ(ChooseOverlapping(blocks, {}), UpTo(10));
  blocks.push_back({0, 1'000, 0});
  EXPECT_EQ(ChooseOverlapping(blocks, {}), (Indexes{10, 11, 12, 13}));
}

TEST(Overlap, BlocksOfTheHighestLevelAreNotChosen) {
  const std::vector<TimeSpan> blocks(20, {0, 1'000, 5});
  EXPECT_TRUE(ChooseOverlapping(blocks, {}).empty());
  EXPECT_EQ(ChooseOverlapping(blocks, kClosed).size(), 16U);
}

TEST(Overlap, TheWidestAreChosenAndInAClosedSlabWhatOverlapsWithThem) {
  std::vector<TimeSpan> blocks(16, {0, 1'000});
  for (std::int64_t i = 0; i < 4; ++i) blocks.push_back({250 * i, 250 * i + 249, 3});
  EXPECT_EQ(ChooseOverlapping(blocks, kClosed), UpTo(16));
  blocks.erase(blocks.begin(), blocks.begin() + 14);
  EXPECT_EQ(ChooseOverlapping(blocks, kClosed), UpTo(6));
}

TEST(Overlap, WhatIsAllOfOneMomentCannotBeApart) {
  const std::vector<TimeSpan> blocks(20, {7, 7});
  EXPECT_TRUE(ChooseOverlapping(blocks, {}).empty());
  EXPECT_TRUE(ChooseOverlapping(blocks, kClosed).empty());
}

TEST(Overlap, TimesAtTheEndsOfTheirRangeDoNotOverflow) {
  const std::vector<TimeSpan> blocks(9, {0, std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(ChooseOverlapping(blocks, {}), UpTo(9));
}

// Holds blocks of messages with known times, and writes blocks again as the rule says.
class Simulation {
 public:
  static constexpr std::size_t kRows = 64;

  void Add(std::vector<std::int64_t> times) {
    written_ += times.size();
    messages_ += times.size();
    blocks_.push_back({std::move(times), 0});
    std::sort(blocks_.back().times.begin(), blocks_.back().times.end());
    Spread({});
  }
  void Spread(const OverlapRule& rule) {
    while (true) {
      std::vector<TimeSpan> spans;
      for (const Block& block : blocks_) {
        spans.push_back({block.times.front(), block.times.back(), block.level});
      }
      const Indexes chosen = ChooseOverlapping(spans, rule);
      if (chosen.empty()) return;
      Rewrite(chosen);
    }
  }
  double amplification() const {
    return static_cast<double>(written_) / static_cast<double>(messages_);
  }
  std::size_t depth() const {
    std::vector<std::pair<std::int64_t, int>> changes;
    for (const Block& block : blocks_) {
      changes.emplace_back(block.times.front(), 1);
      changes.emplace_back(block.times.back() + 1, -1);
    }
    std::sort(changes.begin(), changes.end());
    int depth = 0;
    int most = 0;
    for (const auto& [at, change] : changes) most = std::max(most, depth += change);
    return static_cast<std::size_t>(most);
  }

 private:
  struct Block {
    std::vector<std::int64_t> times;
    std::uint32_t level;
  };

  void Rewrite(const Indexes& chosen) {
    std::vector<std::int64_t> times;
    std::uint32_t level = 0;
    for (auto index = chosen.rbegin(); index != chosen.rend(); ++index) {
      const auto block = blocks_.begin() + static_cast<std::ptrdiff_t>(*index);
      times.insert(times.end(), block->times.begin(), block->times.end());
      level = std::max(level, block->level + 1);
      blocks_.erase(block);
    }
    std::sort(times.begin(), times.end());
    written_ += times.size();
    for (std::size_t begin = 0; begin < times.size(); begin += kRows) {
      const auto first = times.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last =
          times.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kRows, times.size()));
      blocks_.push_back({{first, last}, level});
    }
  }

  std::vector<Block> blocks_;
  std::size_t written_ = 0;
  std::size_t messages_ = 0;
};

// In a backfill, each block covers the whole time.
TEST(Overlap, MessagesAreWrittenAgainALogarithmOfTimes) {
  std::mt19937_64 random(1);
  std::vector<double> amplification;
  for (const int blocks : {64, 512}) {
    Simulation simulation;
    for (int i = 0; i < blocks; ++i) {
      std::vector<std::int64_t> times;
      for (std::size_t row = 0; row < Simulation::kRows; ++row) {
        times.push_back(static_cast<std::int64_t>(random() % 1'000'000));
      }
      simulation.Add(std::move(times));
    }
    EXPECT_LE(simulation.depth(), 3U * 5 + 4);
    amplification.push_back(simulation.amplification());
    simulation.Spread(kClosed);
    EXPECT_LE(simulation.depth(), 3U) << blocks;
    EXPECT_LE(simulation.amplification(), 7) << blocks;
  }
  EXPECT_LE(amplification[0], 4.2);
  EXPECT_LE(amplification[1], 5.7);
}

TEST(Overlap, InOrderNothingIsWrittenAgain) {
  Simulation simulation;
  for (std::int64_t i = 0; i < 200; ++i) {
    std::vector<std::int64_t> times;
    for (std::int64_t row = 0; row < 64; ++row) times.push_back(64 * i + row);
    simulation.Add(std::move(times));
  }
  simulation.Spread(kClosed);
  EXPECT_EQ(simulation.amplification(), 1);
}

}  // namespace
}  // namespace topicdb::columnar
