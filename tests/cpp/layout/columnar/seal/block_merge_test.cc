#include "layout/columnar/seal/block_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

// A slab with three fresh blocks, and a plan to make one block of them.
class BlockMergeTest : public ::testing::Test {
 protected:
  BlockMergeTest() {
    for (int i = 0; i < 3; ++i) slab_.Write(Messages(80));
    plan_.kind = SealingPlan::Kind::kMerge;
    plan_.blocks = slab_.Fresh();
    plan_.codec = PageCodec::kZstd;
    plan_.level = 2;
  }

  Rows Messages(int count) {
    Rows rows;
    for (int i = 0; i < count; ++i) {
      const auto topic = static_cast<std::uint32_t>(random_() % 4);
      rows.push_back({1 + topic / 2, "t/" + std::to_string(topic),
                      static_cast<std::int64_t>(random_() % 100), 0, 0, std::to_string(i)});
    }
    return rows;
  }
  BlockMerge NewMerge() { return {slab_.Source(), &slab_.state(), slab_.limits, plan_}; }
  // Installs the new block without removing the old ones. Returns it.
  Block Install(BlockMerge* merge) {
    rocksdb::WriteBatch batch;
    const Status installed = merge->Install(slab_.Source(), &batch);
    EXPECT_TRUE(installed.ok()) << installed.message();
    EXPECT_TRUE(slab_.db().Write({}, &batch).ok());
    EXPECT_EQ(slab_.Sealed().size(), 1U);
    return slab_.Sealed().at(0);
  }
  // Returns the messages of a block that are not deleted.
  Rows RowsOfBlock(const Block& block) const {
    BlockReader reader(slab_.Source());
    auto deleted = reader.LoadDeleted(block.id).value();
    Rows rows;
    for (std::uint32_t number = 0; number < block.entry.pages; ++number) {
      const auto page = reader.LoadPage(block, number).value();
      DeletedCursor gone(deleted[number]);
      for (std::uint32_t row = 0; row < page->rows(); ++row) {
        if (!gone.Holds(row)) rows.push_back(RowOf(*page, row));
      }
    }
    return rows;
  }
  Rows Expected() const {
    Rows rows = slab_.rows();
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  std::mt19937_64 random_{1};
  ColumnarSlab slab_;
  SealingPlan plan_;
};

TEST_F(BlockMergeTest, MakesOneSortedBlockAsItIsPlanned) {
  BlockMerge merge = NewMerge();
  ASSERT_TRUE(merge.Load().ok());
  ASSERT_TRUE(merge.WriteData().ok());
  const Block block = Install(&merge);
  EXPECT_EQ(RowsOfBlock(block), Expected());
  EXPECT_EQ(block.entry.codec, PageCodec::kZstd);
  EXPECT_EQ(block.entry.level, 2U);
  EXPECT_EQ(block.entry.extent.first_serial, Serial{1});
  EXPECT_EQ(block.entry.extent.last_serial, Serial{3});
  EXPECT_EQ(slab_.CountOf(RecordKind::kDirectory), 1U);
  EXPECT_EQ(slab_.CountOf(RecordKind::kWordFilter), 1U);
  EXPECT_EQ(slab_.CountOf(RecordKind::kFreshEntry), 3U) << "another removes them";
}

TEST_F(BlockMergeTest, NobodySeesTheNewBlockBeforeItIsInstalled) {
  BlockMerge merge = NewMerge();
  ASSERT_TRUE(merge.Load().ok());
  EXPECT_TRUE(slab_.PageKeys().empty());
  ASSERT_TRUE(merge.WriteData().ok());
  EXPECT_FALSE(slab_.PageKeys().empty());
  EXPECT_TRUE(slab_.Sealed().empty());
  EXPECT_EQ(slab_.CountOf(RecordKind::kDirectory), 0U);
}

TEST_F(BlockMergeTest, LeavesOutWhatWasDeletedBefore) {
  slab_.Remove(Request("t/1"));
  BlockMerge merge = NewMerge();
  ASSERT_TRUE(merge.Load().ok());
  ASSERT_TRUE(merge.WriteData().ok());
  const Block block = Install(&merge);
  EXPECT_EQ(block.entry.rows, slab_.rows().size());
  EXPECT_EQ(RowsOfBlock(block), Expected());
}

TEST_F(BlockMergeTest, NotesWhatIsDeletedMeanwhile) {
  slab_.Remove(Request("t/1"));
  ReadRequest before = Request("t/2");
  before.range = {0, 50};
  slab_.Remove(before);
  const std::size_t rows_before = slab_.rows().size();
  BlockMerge merge = NewMerge();
  ASSERT_TRUE(merge.Load().ok());
  ReadRequest while_loaded = Request("t/2");
  while_loaded.range = {40, 80};
  slab_.Remove(while_loaded);
  ASSERT_TRUE(merge.WriteData().ok());
  slab_.Remove(Request("t/3"));
  const Block block = Install(&merge);
  EXPECT_EQ(block.entry.rows, rows_before);
  EXPECT_EQ(RowsOfBlock(block), Expected());
}

TEST_F(BlockMergeTest, WithoutMessagesThereIsNoNewBlock) {
  slab_.Remove(Request("#"));
  BlockMerge merge = NewMerge();
  ASSERT_TRUE(merge.Load().ok());
  ASSERT_TRUE(merge.WriteData().ok());
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(merge.Install(slab_.Source(), &batch).ok());
  EXPECT_EQ(batch.Count(), 0U);
  EXPECT_TRUE(slab_.PageKeys().empty());
}

TEST_F(BlockMergeTest, ADamagedBlockIsAnErrorThatNamesIt) {
  const BlockId id = plan_.blocks[1].id;
  slab_.PutRecord(RecordKey(RecordKind::kFreshPage, id), "damaged");
  BlockMerge merge = NewMerge();
  const Status loaded = merge.Load();
  EXPECT_EQ(loaded.code(), Code::kCorruption);
  EXPECT_NE(loaded.message().find(NameOf(id)), std::string::npos) << loaded.message();
}

}  // namespace
}  // namespace topicdb::columnar
