#include "store/shard/upkeep/garbage_collector.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "rocks/garbage.h"
#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

std::string Noise(std::size_t size) {
  std::mt19937_64 random(5);
  std::string value(size, '\0');
  for (char& byte : value) byte = static_cast<char>(random());  // cannot be compressed
  return value;
}

// A shard with messages in files, of which sealing has made copies. Those that it has replaced are
// garbage.
class GarbageCollectorTest : public ::testing::Test {
 protected:
  void Write(std::size_t value_size) {
    const std::string value = Noise(value_size);
    for (int time = 1; time <= 3; ++time) shard_.Append({{"a", time, value}});
    ASSERT_TRUE(shard_.state.Flush().ok());
  }
  void Seal() { ASSERT_TRUE(shard_.sealing.SealAll().ok()); }
  void Rotate() { ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok()); }
  // Collects garbage, and returns whether the slab's fresh blocks have none after that.
  bool IsClean(const Slab& slab, GarbageScope scope, std::atomic<bool>* canceled = nullptr) {
    const Status collected = shard_.garbage.Collect(scope, canceled);
    EXPECT_TRUE(collected.ok()) << collected.message();
    return rocks::MeasureGarbage(shard_.state.db.get(), slab.families().main).removed == 0;
  }
  std::shared_ptr<Slab> FirstSlab() const { return shard_.state.view()->slabs().front().slab; }
  SlabUsage Measure(const Slab& slab) const {
    SlabUsage usage;
    shard_.garbage.Measure(slab, &usage);
    return usage;
  }

  ShardParts shard_;
};

TEST_F(GarbageCollectorTest, WhatIsNotRemovedIsNoGarbage) {
  Write(kLarge);
  const SlabUsage usage = Measure(shard_.Current());
  EXPECT_GE(usage.disk_bytes, 3 * kLarge);
  EXPECT_EQ(usage.garbage_bytes, 0U);
  for (const GarbageScope scope :
       {GarbageScope::kSettled, GarbageScope::kQuick, GarbageScope::kAll}) {
    ASSERT_TRUE(shard_.garbage.Collect(scope, nullptr).ok());
  }
  EXPECT_EQ(shard_.Get("a", 3)->size(), kLarge);
  EXPECT_GE(Measure(shard_.Current()).disk_bytes, 3 * kLarge);
}

TEST_F(GarbageCollectorTest, WhatSealingHasReplacedIsMeasuredAndRemoved) {
  Write(kLarge);
  Seal();
  const SlabUsage before = Measure(shard_.Current());
  EXPECT_GE(before.disk_bytes, 6 * kLarge) << "everything is there twice";
  EXPECT_GT(before.garbage_bytes, 2 * kLarge);
  EXPECT_LT(before.garbage_bytes, 4 * kLarge);
  EXPECT_TRUE(IsClean(shard_.Current(), GarbageScope::kAll));
  const SlabUsage after = Measure(shard_.Current());
  EXPECT_LT(after.disk_bytes, 4 * kLarge);
  EXPECT_LT(after.garbage_bytes, kLarge / 2);
  for (int time = 1; time <= 3; ++time) EXPECT_EQ(shard_.Get("a", time), Noise(kLarge));
}

TEST_F(GarbageCollectorTest, WhileASlabIsWrittenItsFreshBlocksAreNoSettledGarbage) {
  Write(kLarge);
  Seal();
  EXPECT_FALSE(IsClean(shard_.Current(), GarbageScope::kSettled));
  EXPECT_TRUE(IsClean(shard_.Current(), GarbageScope::kQuick)) << "it is small enough";
}

TEST_F(GarbageCollectorTest, OfAReadOnlySlabLessIsWorthTheWork) {
  Write(kLarge / 10);
  Seal();
  const std::shared_ptr<Slab> slab = FirstSlab();
  EXPECT_FALSE(IsClean(*slab, GarbageScope::kAll));
  Rotate();
  EXPECT_TRUE(IsClean(*slab, GarbageScope::kSettled));
  EXPECT_EQ(shard_.Get("a", 2)->size(), kLarge / 10);
}

TEST_F(GarbageCollectorTest, VeryLittleIsNeverWorthTheWork) {
  Write(100);
  Seal();
  const std::shared_ptr<Slab> slab = FirstSlab();
  EXPECT_FALSE(IsClean(*slab, GarbageScope::kAll));
  Rotate();
  EXPECT_FALSE(IsClean(*slab, GarbageScope::kAll));
}

// RocksDB would write everything anew, and could remove nothing.
TEST_F(GarbageCollectorTest, WaitsForReadersThatNeedWhatWasRemoved) {
  Write(kLarge);
  auto reader = shard_.state.view();
  Seal();
  EXPECT_FALSE(IsClean(shard_.Current(), GarbageScope::kAll));
  reader.reset();
  EXPECT_TRUE(IsClean(shard_.Current(), GarbageScope::kAll));
}

TEST_F(GarbageCollectorTest, EndsEarlyIfItIsCanceled) {
  Write(kLarge);
  Seal();
  std::atomic<bool> canceled{true};
  EXPECT_FALSE(IsClean(shard_.Current(), GarbageScope::kAll, &canceled));
  canceled = false;
  EXPECT_TRUE(IsClean(shard_.Current(), GarbageScope::kAll, &canceled));
}

TEST(GarbageCollector, DeletedMessagesThatWereWrittenAnewAreRemoved) {
  ShardParts shard;
  const std::string value = Noise(kLarge);
  for (int time = 1; time <= 4; ++time) shard.Append({{"a", time, value}, {"b", time, value}});
  ASSERT_TRUE(shard.sealing.SealAll().ok());
  ASSERT_TRUE(shard.state.Flush().ok());
  ASSERT_EQ(shard.Delete("a")->deleted, 4U);
  ASSERT_TRUE(shard.sealing.SealAll().ok());
  SlabUsage before;
  shard.garbage.Measure(shard.Current(), &before);
  ASSERT_TRUE(shard.garbage.Collect(GarbageScope::kAll, nullptr).ok());
  SlabUsage after;
  shard.garbage.Measure(shard.Current(), &after);
  EXPECT_LT(after.disk_bytes + 4 * kLarge, before.disk_bytes);
  EXPECT_LT(after.disk_bytes, 5 * kLarge);
  EXPECT_EQ(shard.Get("a", 1), std::nullopt);
  EXPECT_EQ(shard.Get("b", 4), value);
}

}  // namespace
}  // namespace topicdb
