#include "layout/columnar/seal/block_spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

constexpr std::int64_t kTimes = 1'000'000;

// Makes messages of a few topics at any times.
Rows Messages(std::size_t count, std::mt19937_64* random) {
  Rows rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t topic = (*random)() % 5;
    rows.push_back({static_cast<std::uint32_t>(1 + topic / 2), "t/" + std::to_string(topic),
                    static_cast<std::int64_t>((*random)() % kTimes), 0, 0,
                    std::to_string((*random)())});
  }
  return rows;
}

// Writes blocks that each cover nearly all of the time, and that are too large to be merged.
void WriteBlocks(int count, std::mt19937_64* random, ColumnarSlab* slab) {
  for (int i = 0; i < count; ++i) {
    slab->Write(Messages(150, random));
    ASSERT_TRUE(slab->Seal(SealScope::kFresh));
  }
}

void ExpectAllThere(const ColumnarSlab& slab) {
  for (const char* filter : {"#", "t/1", "none/#"}) {
    const ReadRequest request = Request(filter);
    EXPECT_EQ(ReadAll(slab, request), AsRead(slab.Expected(request))) << filter;
  }
  ReadRequest part = Request("#");
  part.range = {kTimes / 3, kTimes / 2};
  EXPECT_EQ(ReadAll(slab, part), AsRead(slab.Expected(part)));
}

// Returns the largest number of blocks that cover one moment.
std::size_t DepthOf(const std::vector<Block>& blocks) {
  std::size_t most = 0;
  for (const Block& at : blocks) {
    const auto covers = [&](const Block& block) {
      return block.entry.extent.first_time <= at.entry.extent.first_time &&
             block.entry.extent.last_time >= at.entry.extent.first_time;
    };
    most = std::max<std::size_t>(
        most, static_cast<std::size_t>(std::count_if(blocks.begin(), blocks.end(), covers)));
  }
  return most;
}

void ExpectSound(const ColumnarSlab& slab) {
  for (const Block& block : slab.Sealed()) {
    EXPECT_LE(block.entry.bytes, slab.limits.block_bytes_max + slab.limits.block_bytes_max / 16);
    Rows stored;
    BlockReader reader(slab.Source());
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      const Rows rows = RowsOf(*reader.LoadPage(block, page).value());
      stored.insert(stored.end(), rows.begin(), rows.end());
    }
    EXPECT_TRUE(std::is_sorted(stored.begin(), stored.end()));
    EXPECT_EQ(stored.size(), block.entry.rows);
  }
  EXPECT_EQ(slab.PageKeys(), slab.PageKeysOfBlocks());
  EXPECT_EQ(slab.CountOf(RecordKind::kDirectory), slab.Sealed().size());
  EXPECT_EQ(slab.CountOf(RecordKind::kWordFilter), slab.Sealed().size());
}

TEST(BlockSpread, FourBlocksThatOverlapBecomeApartInTime) {
  std::mt19937_64 random(1);
  ColumnarSlab slab;
  WriteBlocks(3, &random, &slab);
  EXPECT_FALSE(slab.Seal(SealScope::kDue));
  WriteBlocks(1, &random, &slab);
  EXPECT_FALSE(slab.Seal(SealScope::kFresh));  // closing does not wait for a spread
  EXPECT_EQ(DepthOf(slab.Sealed()), 4U);
  ASSERT_TRUE(slab.Seal(SealScope::kDue));
  EXPECT_FALSE(slab.Seal(SealScope::kDue));
  const std::vector<Block> blocks = slab.Sealed();
  EXPECT_GE(blocks.size(), 2U);
  EXPECT_EQ(DepthOf(blocks), 1U);
  for (const Block& block : blocks) {
    EXPECT_EQ(block.entry.level, 1U);
    EXPECT_EQ(block.entry.codec, PageCodec::kLz4);
    EXPECT_GE(2 * block.entry.bytes, blocks[0].entry.bytes);  // blocks are about equally large
  }
  ExpectSound(slab);
  ExpectAllThere(slab);
  slab.Reopen();
  EXPECT_FALSE(slab.Seal(SealScope::kDue));
  ExpectAllThere(slab);
}

TEST(BlockSpread, AClosedSlabBecomesApartAndIsThenLeftAlone) {
  std::mt19937_64 random(2);
  ColumnarSlab slab;
  for (int i = 0; i < 5; ++i) {
    WriteBlocks(5, &random, &slab);
    slab.SealAll(SealScope::kDue);
  }
  slab.Write(Messages(20, &random));
  slab.SealAll(SealScope::kClosed);
  EXPECT_FALSE(slab.Seal(SealScope::kClosed));
  EXPECT_LE(DepthOf(slab.Sealed()), 2U);
  for (const Block& block : slab.Sealed()) EXPECT_EQ(block.entry.codec, PageCodec::kZstd);
  ExpectSound(slab);
  ExpectAllThere(slab);
}

TEST(BlockSpread, WhatIsDeletedMeanwhileStaysDeleted) {
  std::mt19937_64 random(3);
  for (const char* filter : {"t/1", "#"}) {
    ColumnarSlab slab;
    WriteBlocks(8, &random, &slab);
    slab.Remove(Request("t/0"));
    ReadRequest before = Request(filter);
    before.range = {0, kTimes / 2};
    ReadRequest after = Request(filter);
    after.range = {kTimes / 4, kTimes - kTimes / 8};
    slab.Remove(before);
    ASSERT_TRUE(slab.Seal(SealScope::kDue, [&] { slab.Remove(after); }));
    ExpectAllThere(slab);
    slab.SealAll(SealScope::kClosed);
    ExpectSound(slab);
    ExpectAllThere(slab);
  }
}

TEST(BlockSpread, BlocksAllOfWhoseRowsAreDeletedVanish) {
  std::mt19937_64 random(4);
  ColumnarSlab slab;
  WriteBlocks(8, &random, &slab);
  ASSERT_TRUE(slab.Seal(SealScope::kDue, [&] { slab.Remove(Request("#")); }));
  ExpectAllThere(slab);
  slab.SealAll(SealScope::kClosed);
  EXPECT_TRUE(slab.Sealed().empty());
  EXPECT_TRUE(slab.PageKeys().empty());
  EXPECT_EQ(slab.CountOf(RecordKind::kDeletedRows), 0U);
}

TEST(BlockSpread, PagesThatACrashLeftAreRemovedAndTheDataIsStillThere) {
  std::mt19937_64 random(5);
  ColumnarSlab slab;
  WriteBlocks(8, &random, &slab);
  const std::set<std::string> pages = slab.PageKeys();
  {
    const auto sealing = slab.layout().log()->NewSealing(slab.Source(), &slab.state(), slab.limits);
    ASSERT_TRUE(sealing->Gather(SealScope::kDue).value());
    ASSERT_TRUE(sealing->WriteData().ok());
  }
  EXPECT_GT(slab.PageKeys().size(), pages.size());
  ExpectAllThere(slab);
  slab.Reopen();
  EXPECT_EQ(slab.PageKeys(), pages);
  ExpectAllThere(slab);
  ASSERT_TRUE(slab.Seal(SealScope::kDue));
  ExpectSound(slab);
  ExpectAllThere(slab);
}

TEST(BlockSpread, MessagesOfOneMomentAreSpreadByTheirCommits) {
  std::mt19937_64 random(6);
  ColumnarSlab slab;
  for (int i = 0; i < 8; ++i) {
    Rows rows = Messages(150, &random);
    for (std::size_t row = 1; row < rows.size(); ++row) rows[row].time = 500;
    slab.Write(std::move(rows));
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
  }
  slab.SealAll(SealScope::kClosed);
  ExpectSound(slab);
  ExpectAllThere(slab);
}

TEST(BlockSpread, TheLogIsInTheOrderOfCommits) {
  std::mt19937_64 random(7);
  ColumnarSlab slab;
  WriteBlocks(8, &random, &slab);
  ASSERT_TRUE(slab.Seal(SealScope::kDue));
  for (const std::size_t memory : {std::size_t{1} << 20, std::size_t{4'000}}) {
    ReadRequest request = Request("#");
    request.memory_bytes_max = memory;
    const auto reader = slab.layout().log()->NewLogReader(slab.Source(), request, Serial{3});
    Batch batch;
    std::vector<std::uint32_t> indexes;
    while (reader->Head({}).value().has_value()) {
      reader->Read({kLastSerial, 0}, {}, &batch, &indexes);
    }
    Rows expected;
    for (const Row& row : slab.rows()) {
      if (row.serial >= 3) expected.push_back(row);
    }
    ASSERT_EQ(batch.size(), expected.size());
    for (std::size_t row = 0; row < expected.size(); ++row) {
      ASSERT_EQ(batch.value(row), expected[row].value);
      ASSERT_EQ(indexes[row], expected[row].index);
    }
  }
}

// Runs any sequence of writes, deletes, steps of sealing and crashes.
TEST(BlockSpread, RandomHistoriesAreReadAsTheyWere) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    std::mt19937_64 random(seed);
    ColumnarSlab slab;
    for (int step = 0; step < 120; ++step) {
      const auto what = random() % 16;
      if (what < 8) slab.Write(Messages(1 + random() % 150, &random));
      if (what >= 8 && what < 11) slab.Seal(SealScope::kFresh);
      if (what >= 11 && what < 14) slab.SealAll(SealScope::kDue);
      if (what == 14) {
        ReadRequest some = Request("t/" + std::to_string(random() % 5));
        const auto start = static_cast<std::int64_t>(random() % kTimes);
        some.range = {start, start + kTimes / 10};
        slab.Seal(random() % 2 == 0 ? SealScope::kDue : SealScope::kClosed,
                  [&] { slab.Remove(some); });
        slab.Remove(some);
      }
      if (what == 15) slab.Reopen();
    }
    ExpectAllThere(slab);
    slab.SealAll(SealScope::kClosed);
    ExpectSound(slab);
    ExpectAllThere(slab);
  }
}

}  // namespace
}  // namespace topicdb::columnar
