#include "layout/columnar/seal/block_sealing.h"

#include <gtest/gtest.h>

#include <random>

#include "layout/columnar/columnar_slab.h"
#include "rocks/garbage.h"

namespace topicdb::columnar {
namespace {

// Makes messages of three topics, in no order of time.
Rows Messages(std::size_t count, std::mt19937_64* random) {
  Rows rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t topic = (*random)() % 3;
    rows.push_back({static_cast<std::uint32_t>(1 + topic / 2), "t/" + std::to_string(topic),
                    static_cast<std::int64_t>((*random)() % 100), 0, 0,
                    std::to_string((*random)())});
  }
  return rows;
}

void ExpectAllThere(const ColumnarSlab& slab) {
  for (const char* filter : {"#", "t/1", "none/#"}) {
    const ReadRequest request = Request(filter);
    EXPECT_EQ(ReadAll(slab, request), AsRead(slab.Expected(request))) << filter;
  }
}

std::uint64_t RowsOfBlocks(const std::vector<Block>& blocks) {
  std::uint64_t rows = 0;
  for (const Block& block : blocks) rows += block.entry.rows;
  return rows;
}

TEST(BlockSealing, FreshBlocksBecomeOneSortedBlock) {
  std::mt19937_64 random(1);
  ColumnarSlab slab;
  for (int i = 0; i < 5; ++i) slab.Write(Messages(20, &random));
  EXPECT_EQ(slab.state().fresh_blocks, 5U);
  EXPECT_TRUE(slab.Seal(SealScope::kFresh));
  EXPECT_FALSE(slab.Seal(SealScope::kFresh));
  EXPECT_EQ(slab.state().fresh_blocks, 0U);
  EXPECT_EQ(slab.state().fresh_bytes, 0U);
  EXPECT_EQ(slab.CountOf(RecordKind::kFreshEntry), 0U);
  EXPECT_EQ(slab.CountOf(RecordKind::kFreshPage), 0U);

  const std::vector<Block> blocks = slab.Sealed();
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0].entry.rows, 100U);
  EXPECT_GT(blocks[0].entry.pages, 1U);
  EXPECT_EQ(blocks[0].entry.extent.first_serial, Serial{1});
  EXPECT_EQ(blocks[0].entry.extent.last_serial, Serial{5});
  Rows stored;
  BlockReader reader(slab.Source());
  const Directory directory = slab.DirectoryOf(blocks[0].id);
  ASSERT_EQ(directory.size(), blocks[0].entry.pages);
  for (std::uint32_t number = 0; number < directory.size(); ++number) {
    const auto page = reader.LoadPage(blocks[0], number).value();
    const Rows rows = RowsOf(*page);
    EXPECT_EQ(directory[number].rows, page->rows());
    EXPECT_EQ(directory[number].extent, page->extent());
    EXPECT_EQ(directory[number].first_stream, StreamId{rows[0].stream});
    EXPECT_EQ(directory[number].first_topic, rows[0].topic);
    stored.insert(stored.end(), rows.begin(), rows.end());
  }
  Rows expected = slab.rows();
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(stored, expected);
  ExpectAllThere(slab);
}

TEST(BlockSealing, WaitsUntilEnoughIsFresh) {
  std::mt19937_64 random(2);
  ColumnarSlab slab;
  slab.limits.fresh_blocks_max = 3;
  slab.Write(Messages(5, &random));
  slab.Write(Messages(5, &random));
  EXPECT_FALSE(slab.Seal(SealScope::kDue));
  slab.Write(Messages(5, &random));
  EXPECT_TRUE(slab.Seal(SealScope::kDue));
  slab.Write({{1, "t", 1, 0, 0, std::string(slab.limits.fresh_bytes_max, 'x')}});
  EXPECT_TRUE(slab.Seal(SealScope::kDue));
  EXPECT_FALSE(slab.Seal(SealScope::kDue));
  ExpectAllThere(slab);
}

TEST(BlockSealing, ABlockIsNoLargerThanItsLimit) {
  std::mt19937_64 random(3);
  ColumnarSlab slab;
  for (int i = 0; i < 20; ++i) slab.Write(Messages(40, &random));
  slab.SealAll(SealScope::kFresh);
  EXPECT_GT(slab.Sealed().size(), 1U);
  for (const Block& block : slab.Sealed()) {
    EXPECT_LE(block.entry.bytes, slab.limits.block_bytes_max);
  }
  EXPECT_EQ(RowsOfBlocks(slab.Sealed()), 800U);
  ExpectAllThere(slab);
}

TEST(BlockSealing, OneMessageMayBeLargerThanABlock) {
  ColumnarSlab slab;
  slab.Write({{1, "a", 1, 0, 0, "1"}, {1, "b", 1, 0, 0, std::string(50'000, 'x')}});
  slab.Write({{1, "a", 1, 0, 0, "2"}});
  slab.SealAll(SealScope::kClosed);
  EXPECT_EQ(slab.state().fresh_blocks, 0U);
  ExpectAllThere(slab);
}

TEST(BlockSealing, EightSmallSealedBlocksAreMergedIntoOne) {
  std::mt19937_64 random(4);
  ColumnarSlab slab;
  for (std::size_t i = 1; i < 8; ++i) {
    slab.Write(Messages(5, &random));
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
    EXPECT_FALSE(slab.Seal(SealScope::kDue));
    EXPECT_EQ(slab.Sealed().size(), i);
  }
  slab.Remove(Request("t/0"));
  slab.Write(Messages(5, &random));
  ASSERT_TRUE(slab.Seal(SealScope::kFresh));
  slab.SealAll(SealScope::kDue);
  EXPECT_EQ(slab.Sealed().size(), 1U);
  EXPECT_EQ(RowsOfBlocks(slab.Sealed()), slab.rows().size());
  EXPECT_EQ(slab.CountOf(RecordKind::kDirectory), 1U);
  EXPECT_EQ(slab.CountOf(RecordKind::kWordFilter), 1U);
  EXPECT_EQ(slab.CountOf(RecordKind::kTopics), 1U);
  EXPECT_EQ(slab.CountOf(RecordKind::kDeletedRows), 0U);
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  ExpectAllThere(slab);
}

TEST(BlockSealing, BlocksAreFewHoweverManyCommitsThereAre) {
  std::mt19937_64 random(5);
  ColumnarSlab slab;
  slab.limits.block_bytes_max = 1 << 20;
  for (int i = 0; i < 600; ++i) {
    slab.Write(Messages(1, &random));
    if (i % 2 == 1) slab.Seal(SealScope::kFresh);
    slab.SealAll(SealScope::kDue);
  }
  EXPECT_LE(slab.Sealed().size(), 30U);  // of the 300 that were sealed
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  ExpectAllThere(slab);
}

// Returns how many keys of pages were removed and not forgotten yet.
std::uint64_t RemovedKeys(ColumnarSlab* slab) {
  EXPECT_TRUE(slab->db().Flush({}, slab->families().sealed).ok());
  return rocks::MeasureGarbage(&slab->db(), slab->families().sealed).removed;
}

TEST(BlockSealing, BlocksWhosePagesAreOneRecordAreMergedWithOthers) {
  std::mt19937_64 random(11);
  ColumnarSlab slab;
  std::size_t removed = 0;
  for (int i = 0; i < 8; ++i) {
    slab.limits.values_apart = i % 2 == 1;
    slab.Write(Messages(30, &random));
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
    const BlockEntry entry = slab.Sealed().back().entry;
    EXPECT_EQ(HasValueRecords(entry), slab.limits.values_apart);
    removed += entry.pages * (HasValueRecords(entry) ? 2 : 1);
  }
  slab.Remove(Request("t/2"));
  slab.WriteStaged(Messages(30, &random));
  ExpectAllThere(slab);
  EXPECT_EQ(slab.PageKeys().size(), removed + 2 * slab.Fresh().at(0).entry.pages);
  ASSERT_EQ(RemovedKeys(&slab), 0U);
  ASSERT_TRUE(slab.Seal(SealScope::kDue));
  ASSERT_EQ(slab.Sealed().size(), 1U);
  EXPECT_TRUE(HasValueRecords(slab.Sealed()[0].entry));
  EXPECT_EQ(RemovedKeys(&slab), removed) << "it removed keys that are not there";
  ExpectAllThere(slab);
  slab.SealAll(SealScope::kClosed);
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  ExpectAllThere(slab);
}

TEST(BlockSealing, DeletedRowsAreLeftOut) {
  std::mt19937_64 random(6);
  ColumnarSlab slab;
  slab.Write(Messages(60, &random));
  slab.Remove(Request("t/0"));
  EXPECT_GT(slab.CountOf(RecordKind::kDeletedRows), 0U);
  slab.Seal(SealScope::kFresh);
  EXPECT_EQ(slab.CountOf(RecordKind::kDeletedRows), 0U);
  EXPECT_EQ(RowsOfBlocks(slab.Sealed()), slab.rows().size());
  ExpectAllThere(slab);

  slab.Remove(Request("t/1"));
  EXPECT_GT(slab.CountOf(RecordKind::kDeletedRows), 0U);
  slab.SealAll(SealScope::kClosed);
  EXPECT_EQ(slab.CountOf(RecordKind::kDeletedRows), 0U);
  EXPECT_EQ(RowsOfBlocks(slab.Sealed()), slab.rows().size());
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  ExpectAllThere(slab);
}

TEST(BlockSealing, ABlockAllOfWhoseRowsAreDeletedVanishes) {
  std::mt19937_64 random(7);
  for (const bool during : {false, true}) {
    ColumnarSlab slab;
    slab.Write(Messages(60, &random));
    if (!during) slab.Remove(Request("#"));
    slab.Seal(SealScope::kFresh, [&] {
      if (during) slab.Remove(Request("#"));
    });
    ExpectAllThere(slab);
    slab.SealAll(SealScope::kClosed);
    EXPECT_TRUE(slab.rows().empty());
    EXPECT_TRUE(slab.Sealed().empty());
    EXPECT_TRUE(slab.PageKeys().empty());
    EXPECT_EQ(slab.CountOf(RecordKind::kDirectory), 0U);
    EXPECT_EQ(slab.CountOf(RecordKind::kWordFilter), 0U);
    EXPECT_EQ(slab.CountOf(RecordKind::kTopics), 0U);
    EXPECT_EQ(slab.CountOf(RecordKind::kDeletedRows), 0U);
    slab.Reopen();
    slab.Write(Messages(3, &random));  // takes numbers of blocks that were used before
    slab.SealAll(SealScope::kClosed);
    ExpectAllThere(slab);
  }
}

TEST(BlockSealing, AClosedSlabIsCompressedAgainAndThenLeftAlone) {
  std::mt19937_64 random(8);
  ColumnarSlab slab;
  for (int i = 0; i < 3; ++i) {
    slab.Write(Messages(300, &random));
    slab.Seal(SealScope::kFresh);
  }
  slab.Write(Messages(10, &random));
  EXPECT_EQ(slab.Sealed().at(0).entry.codec, PageCodec::kLz4);
  slab.SealAll(SealScope::kClosed);
  EXPECT_FALSE(slab.Seal(SealScope::kClosed));
  for (const Block& block : slab.Sealed()) EXPECT_EQ(block.entry.codec, PageCodec::kZstd);
  EXPECT_EQ(slab.state().fresh_blocks, 0U);
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  ExpectAllThere(slab);
}

TEST(BlockSealing, PagesThatACrashLeftAreRemovedAndTheDataIsStillThere) {
  std::mt19937_64 random(9);
  ColumnarSlab slab;
  slab.Write(Messages(100, &random));
  slab.Seal(SealScope::kFresh);
  slab.Write(Messages(100, &random));
  const std::set<std::string> pages = slab.PageKeys();
  {
    const auto sealing = slab.layout().log()->NewSealing(slab.Source(), &slab.state(), slab.limits);
    ASSERT_TRUE(sealing->Gather(SealScope::kFresh).value());
    ASSERT_TRUE(sealing->WriteData().ok());
  }
  EXPECT_GT(slab.PageKeys().size(), pages.size());
  ExpectAllThere(slab);
  slab.Reopen();
  EXPECT_EQ(slab.PageKeys(), pages);
  EXPECT_EQ(slab.state().fresh_blocks, 1U);
  ExpectAllThere(slab);
  slab.SealAll(SealScope::kClosed);
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  ExpectAllThere(slab);
}

TEST(BlockSealing, ASlabThatIsOpenedToBeReadKeepsWhatACrashLeft) {
  std::mt19937_64 random(10);
  ColumnarSlab slab;
  slab.Write(Messages(10, &random));
  {
    const auto sealing = slab.layout().log()->NewSealing(slab.Source(), &slab.state(), slab.limits);
    ASSERT_TRUE(sealing->Gather(SealScope::kFresh).value());
    ASSERT_TRUE(sealing->WriteData().ok());
  }
  const std::set<std::string> pages = slab.PageKeys();
  LayoutState state;
  ASSERT_TRUE(slab.layout().Restore(slab.Source(), true, &state).ok());
  EXPECT_EQ(slab.PageKeys(), pages);
  EXPECT_EQ(state.fresh_blocks, 1U);
  EXPECT_EQ(state.fresh_bytes, slab.state().fresh_bytes);
}

}  // namespace
}  // namespace topicdb::columnar
