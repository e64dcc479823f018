#include "layout/columnar/seal/sealing_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

using Kind = SealingPlan::Kind;
using Numbers = std::vector<std::uint64_t>;

constexpr SealLimits kLimits{10'000, 5, 8'000, 500};
constexpr std::size_t kSmall =
    1'000;  // bytes of the largest block that is merged with seven others

// A slab with the records of blocks, but without their pages, which no plan reads. Each block has
// the messages of the commit after that of the block before.
class SealingPlanTest : public ::testing::Test {
 protected:
  static BlockEntry Entry(std::size_t bytes) {
    BlockEntry entry;
    entry.codec = PageCodec::kLz4;
    entry.rows = 100;
    entry.pages = 2;
    entry.bytes = bytes;
    entry.extent.last_time = 1'000;
    return entry;
  }
  static BlockEntry Staged(std::size_t bytes) {
    BlockEntry entry = Entry(bytes);
    entry.staged = true;
    return entry;
  }
  // Returns the entry of a block that shares no time with others of these.
  static BlockEntry Apart(std::size_t bytes, std::int64_t number) {
    BlockEntry entry = Entry(bytes);
    entry.extent.first_time = 10'000 * number;
    entry.extent.last_time = 10'000 * number + 1'000;
    return entry;
  }

  BlockId AddFresh(const BlockEntry& entry) {
    ++state_.fresh_blocks;
    state_.fresh_bytes += entry.bytes;
    return Add(RecordKind::kFreshEntry, entry);
  }
  BlockId AddSealed(const BlockEntry& entry) { return Add(RecordKind::kSealedEntry, entry); }
  void DeleteRows(BlockId block, std::uint32_t page, std::uint32_t count) {
    DeletedRows rows;
    for (std::uint32_t row = 0; row < count; ++row) rows.push_back(row);
    slab_.PutRecord(DeletedRowsKey(block, page), Encode(rows));
  }

  SealingPlan Plan(SealScope scope) {
    BlockReader reader(slab_.Source());
    auto plan = PlanSealing(&reader, state_, kLimits, scope);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? *plan : SealingPlan();
  }
  // Expects a plan of this kind for these blocks.
  void ExpectPlan(SealScope scope, Kind kind, const Numbers& numbers) {
    const SealingPlan plan = Plan(scope);
    Numbers found;
    for (const Block& block : plan.blocks) found.push_back(block.id.value());
    EXPECT_EQ(plan.kind, kind);
    EXPECT_EQ(found, numbers);
  }
  void ExpectNothing(SealScope scope) { ExpectPlan(scope, Kind::kNothing, {}); }

  ColumnarSlab slab_;
  LayoutState state_;

 private:
  BlockId Add(RecordKind kind, BlockEntry entry) {
    const BlockId id = state_.NewBlockId();
    entry.extent.first_serial = entry.extent.last_serial = Serial{id.value()};
    slab_.PutRecord(RecordKey(kind, id), Encode(entry));
    return id;
  }
};

TEST_F(SealingPlanTest, AnEmptySlabNeedsNothing) {
  for (const SealScope scope : {SealScope::kDue, SealScope::kFresh, SealScope::kClosed}) {
    ExpectNothing(scope);
  }
}

TEST_F(SealingPlanTest, FreshBlocksAreDueByTheirNumber) {
  for (int i = 0; i < 4; ++i) AddFresh(Entry(10));
  ExpectNothing(SealScope::kDue);
  ExpectPlan(SealScope::kFresh, Kind::kMerge, {1, 2, 3, 4});
  AddFresh(Entry(10));
  ExpectPlan(SealScope::kDue, Kind::kMerge, {1, 2, 3, 4, 5});
}

TEST_F(SealingPlanTest, FreshBlocksAreDueByTheirBytes) {
  AddFresh(Entry(kLimits.fresh_bytes_max - 1));
  ExpectNothing(SealScope::kDue);
  AddFresh(Entry(1));
  ExpectPlan(SealScope::kDue, Kind::kMerge, {1});
}

TEST_F(SealingPlanTest, TakesAsManyFreshBlocksAsABlockMayHave) {
  for (int i = 0; i < 4; ++i) AddFresh(Entry(kLimits.block_bytes_max / 2));
  ExpectPlan(SealScope::kFresh, Kind::kMerge, {1, 2});
}

TEST_F(SealingPlanTest, TakesAsManyFreshRowsAsABlockMayHave) {
  BlockEntry entry = Entry(10);
  entry.rows = SealLimits::kBlockRowsMax / 2;
  AddFresh(entry);
  AddFresh(entry);
  AddFresh(Entry(10));
  ExpectPlan(SealScope::kFresh, Kind::kMerge, {1, 2});
}

TEST_F(SealingPlanTest, AFreshBlockThatIsTooLargeIsSealedAlone) {
  AddFresh(Entry(10 * kLimits.block_bytes_max));
  AddFresh(Entry(1));
  ExpectPlan(SealScope::kFresh, Kind::kMerge, {1});
}

TEST_F(SealingPlanTest, StagedBlocksArePromotedHoweverLargeTheyAre) {
  AddFresh(Staged(kLimits.block_bytes_max));
  AddFresh(Staged(kLimits.block_bytes_max));
  AddFresh(Entry(10));
  AddFresh(Staged(10));
  ExpectPlan(SealScope::kFresh, Kind::kPromote, {1, 2});
}

TEST_F(SealingPlanTest, AStagedBlockIsNotPromotedBeforeAnOlderFreshBlock) {
  AddFresh(Entry(10));
  AddFresh(Staged(10));
  AddFresh(Entry(10));
  ExpectPlan(SealScope::kFresh, Kind::kMerge, {1});
}

TEST_F(SealingPlanTest, EightSmallBlocksThatFollowEachOtherAreMerged) {
  for (int i = 0; i < 7; ++i) AddSealed(Apart(kSmall, i));
  ExpectNothing(SealScope::kDue);
  AddSealed(Apart(kSmall + 1, 7));
  ExpectNothing(SealScope::kDue);  // it is no small one
  for (int i = 8; i < 16; ++i) AddSealed(Apart(kSmall, i));
  ExpectPlan(SealScope::kDue, Kind::kMerge, {9, 10, 11, 12, 13, 14, 15, 16});
  ExpectPlan(SealScope::kFresh, Kind::kMerge, {9, 10, 11, 12, 13, 14, 15, 16});
}

TEST_F(SealingPlanTest, ABlockOfManyRowsIsNoSmallOne) {
  for (int i = 0; i < 7; ++i) AddSealed(Apart(10, i));
  BlockEntry many = Apart(10, 7);
  many.rows = SealLimits::kBlockRowsMax / 8 + 1;
  AddSealed(many);
  ExpectNothing(SealScope::kDue);
}

TEST_F(SealingPlanTest, OfSmallBlocksTheSmallestComeFirst) {
  for (int i = 0; i < 8; ++i) AddSealed(Apart(kSmall, i));
  for (int i = 8; i < 16; ++i) AddSealed(Apart(kSmall / 8, i));
  ExpectPlan(SealScope::kDue, Kind::kMerge, {9, 10, 11, 12, 13, 14, 15, 16});
}

// Blocks that were brought apart in time are not merged in the order of commits again.
TEST_F(SealingPlanTest, BlocksWithALevelAreNotMerged) {
  BlockEntry spread = Apart(10, 0);
  spread.level = 1;
  for (int i = 0; i < 4; ++i) AddSealed(Apart(10, i));
  AddSealed(spread);
  for (int i = 4; i < 7; ++i) AddSealed(Apart(10, i));
  ExpectNothing(SealScope::kDue);
  AddSealed(Apart(10, 7));
  ExpectPlan(SealScope::kDue, Kind::kMerge, {1, 2, 3, 4, 6, 7, 8, 9});
}

TEST_F(SealingPlanTest, ABlockOfWhichHalfIsDeletedIsWrittenAnew) {
  AddSealed(Apart(5'000, 0));
  BlockEntry entry = Apart(5'000, 1);
  entry.level = 3;
  const BlockId block = AddSealed(entry);
  DeleteRows(block, 0, 30);
  DeleteRows(block, 1, 19);
  ExpectNothing(SealScope::kDue);
  DeleteRows(block, 1, 20);
  ExpectPlan(SealScope::kDue, Kind::kMerge, {block.value()});
  EXPECT_EQ(Plan(SealScope::kDue).level, 3U) << "it is where it was";
}

TEST_F(SealingPlanTest, FourBlocksThatOverlapInTimeAreSpread) {
  for (int i = 0; i < 3; ++i) AddSealed(Entry(5'000));
  ExpectNothing(SealScope::kDue);
  AddSealed(Entry(5'000));
  ExpectPlan(SealScope::kDue, Kind::kSpread, {1, 2, 3, 4});
  EXPECT_EQ(Plan(SealScope::kDue).level, 1U);
  EXPECT_EQ(Plan(SealScope::kDue).codec, PageCodec::kLz4);
  ExpectNothing(SealScope::kFresh);  // whoever waits for fresh blocks does not wait for this
}

TEST_F(SealingPlanTest, SmallBlocksAreMergedBeforeTheyAreSpread) {
  for (int i = 0; i < 7; ++i) AddSealed(Entry(kSmall));
  ExpectNothing(SealScope::kDue);
  ExpectPlan(SealScope::kClosed, Kind::kSpread, {1, 2, 3, 4, 5, 6, 7});
}

TEST_F(SealingPlanTest, InAClosedSlabTwoBlocksThatOverlapAreSpreadWhateverTheirLevels) {
  BlockEntry spread = Entry(5'000);
  spread.level = 3;
  AddSealed(spread);
  AddSealed(Entry(5'000));
  ExpectNothing(SealScope::kDue);
  ExpectPlan(SealScope::kClosed, Kind::kSpread, {1, 2});
  EXPECT_EQ(Plan(SealScope::kClosed).level, 4U);
  EXPECT_EQ(Plan(SealScope::kClosed).codec, PageCodec::kZstd);
}

TEST_F(SealingPlanTest, ABlockThatWasSpreadEightTimesIsNotSpreadAgain) {
  BlockEntry spread = Entry(5'000);
  spread.codec = PageCodec::kZstd;
  spread.level = 8;
  AddSealed(spread);
  AddSealed(spread);
  ExpectNothing(SealScope::kClosed);
}

TEST_F(SealingPlanTest, InAClosedSlabABlockIsCompressedBetterOnce) {
  const BlockId block = AddSealed(Apart(5'000, 0));
  ExpectNothing(SealScope::kDue);
  ExpectNothing(SealScope::kFresh);
  ExpectPlan(SealScope::kClosed, Kind::kMerge, {block.value()});
  const SealingPlan plan = Plan(SealScope::kClosed);
  EXPECT_EQ(plan.codec, PageCodec::kZstd);
  BlockEntry compressed = plan.blocks.at(0).entry;
  compressed.codec = plan.codec;
  slab_.PutRecord(RecordKey(RecordKind::kSealedEntry, block), Encode(compressed));
  ExpectNothing(SealScope::kClosed);
}

TEST_F(SealingPlanTest, TheMostUrgentStepComesFirst) {
  const auto remove = [&](RecordKind kind, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t number = first; number <= last; ++number) {
      slab_.RemoveRecord(RecordKey(kind, BlockId{number}));
    }
  };
  for (int i = 0; i < 8; ++i) AddSealed(Apart(kSmall, i + 1));  // 1 to 8
  const BlockId deleted = AddSealed(Apart(5'000, 20));          // 9
  for (int i = 0; i < 4; ++i) AddSealed(Entry(5'000));          // 10 to 13
  for (int i = 0; i < 5; ++i) AddFresh(Entry(10));              // 14 to 18
  DeleteRows(deleted, 0, 50);
  ExpectPlan(SealScope::kClosed, Kind::kMerge, {14, 15, 16, 17, 18});
  remove(RecordKind::kFreshEntry, 14, 18);
  ExpectPlan(SealScope::kClosed, Kind::kMerge, {1, 2, 3, 4, 5, 6, 7, 8});
  remove(RecordKind::kSealedEntry, 1, 8);
  ExpectPlan(SealScope::kClosed, Kind::kMerge, {9});
  remove(RecordKind::kSealedEntry, 9, 9);
  ExpectPlan(SealScope::kClosed, Kind::kSpread, {10, 11, 12, 13});
}

TEST_F(SealingPlanTest, ADamagedRecordIsNamed) {
  const BlockId block = AddSealed(Apart(5'000, 0));
  slab_.PutRecord(DeletedRowsKey(block, 0), "damaged");
  BlockReader reader(slab_.Source());
  const auto deleted = PlanSealing(&reader, state_, kLimits, SealScope::kDue);
  EXPECT_EQ(deleted.status().code(), Code::kCorruption);
  EXPECT_NE(deleted.status().message().find("block 1: its list of deleted messages"),
            std::string::npos)
      << deleted.status().message();
  slab_.PutRecord(RecordKey(RecordKind::kFreshEntry, BlockId{7}), "damaged");
  const auto entry = PlanSealing(&reader, state_, kLimits, SealScope::kFresh);
  EXPECT_EQ(entry.status().code(), Code::kCorruption);
  EXPECT_NE(entry.status().message().find("block 7: its entry"), std::string::npos)
      << entry.status().message();
}

}  // namespace
}  // namespace topicdb::columnar
