#include "layout/columnar/select/block_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "layout/blocks.h"
#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

using Counts = std::map<Serial, MessageCount>;

ReadRequest Everything() {
  ReadRequest request;
  request.filter = Filter::Everything();
  return request;
}

// A slab with two sealed blocks, two fresh ones, and a staged one. Streams 1 to 3 have two topics
// each; all values have five bytes.
class BlockSizes : public ::testing::Test {
 protected:
  BlockSizes() {
    slab_.limits.page_bytes_max = 60;
    for (int i = 0; i < 2; ++i) {
      slab_.Write(Messages(100, 1'000 * i));
      slab_.Write(Messages(100, 1'000 * i));
      slab_.Seal(SealScope::kFresh);
    }
    slab_.Write(Messages(20, 2'000));
    slab_.Write(Messages(20, 2'000));
    slab_.WriteStaged(Messages(100, 0), 3'000);
  }

  Rows Messages(int count, std::int64_t begin) {
    Rows rows;
    for (int i = 0; i < count; ++i) {
      const auto topic = static_cast<std::uint32_t>(random_() % 6);
      rows.push_back({1 + topic / 2, "t/" + std::to_string(topic),
                      begin + static_cast<std::int64_t>(random_() % 900), 0, 0, "value"});
    }
    return rows;
  }
  // Returns how many messages any of the requests wants, and their bytes. Only those of one commit
  // if `serial` is given.
  MessageCount Count(const std::vector<ReadRequest>& any_of, Serial serial = kNoSerial) const {
    MessageCount count;
    for (const Row& row : slab_.rows()) {
      const bool is_wanted = std::any_of(any_of.begin(), any_of.end(), [&](const auto& request) {
        return ColumnarSlab::IsWanted(request, row) && Serial{row.serial} >= request.serial_min;
      });
      if (!is_wanted || (serial != kNoSerial && Serial{row.serial} != serial)) continue;
      ++count.messages;
      count.bytes += row.topic.size() + row.value.size();
    }
    return count;
  }
  std::vector<BlockInfo> List(const std::vector<ReadRequest>& any_of) const {
    auto blocks = ListBlocks(slab_.Source(), any_of);
    EXPECT_TRUE(blocks.ok()) << blocks.status().message();
    return blocks.ok() ? *blocks : std::vector<BlockInfo>();
  }
  // Expects that the counts of all listed blocks are those of the messages of the slab.
  void ExpectCounts(const std::vector<ReadRequest>& any_of) const {
    Counts all;
    for (const BlockInfo& block : List(any_of)) {
      auto counts = CountByCommit(slab_.Source(), block, any_of);
      ASSERT_TRUE(counts.ok()) << counts.status().message();
      for (const auto& [serial, count] : *counts) {
        all[serial].messages += count.messages;
        all[serial].bytes += count.bytes;
        EXPECT_GE(serial, block.first_serial);
        EXPECT_LE(serial, block.last_serial);
      }
    }
    for (Serial serial{1}; serial <= Serial{7}; ++serial) {
      const MessageCount expected = Count(any_of, serial);
      EXPECT_EQ(all[serial].messages, expected.messages) << serial.value();
      EXPECT_EQ(all[serial].bytes, expected.bytes) << serial.value();
    }
  }

  std::mt19937_64 random_{1};
  ColumnarSlab slab_;
};

TEST_F(BlockSizes, ListsEachBlockWithWhatItsRecordsSay) {
  const std::vector<BlockInfo> blocks = List({Everything()});
  ASSERT_EQ(blocks.size(), 5U);
  std::vector<Block> expected = slab_.Sealed();
  const std::vector<Block> fresh = slab_.Fresh();
  expected.insert(expected.end(), fresh.rbegin(), fresh.rend());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const BlockEntry& entry = expected[i].entry;
    EXPECT_EQ(blocks[i].id, expected[i].id);
    EXPECT_EQ(blocks[i].sealed, i < 2);
    EXPECT_EQ(blocks[i].staged, entry.staged);
    EXPECT_EQ(blocks[i].rows, entry.rows);
    EXPECT_EQ(blocks[i].pages, entry.pages);
    EXPECT_EQ(blocks[i].first_time, entry.extent.first_time);
    EXPECT_EQ(blocks[i].last_time, entry.extent.last_time);
    EXPECT_EQ(blocks[i].first_serial, entry.extent.first_serial);
    EXPECT_EQ(blocks[i].last_serial, entry.extent.last_serial);
    EXPECT_EQ(blocks[i].size.messages, entry.rows);
    EXPECT_EQ(blocks[i].size.bytes, entry.bytes);
  }
}

TEST_F(BlockSizes, DeletedMessagesDoNotCountAndTheirBlocksAreNotListed) {
  ReadRequest first = Request("#");
  first.serial_max = Serial{2};
  slab_.Remove(first);
  slab_.Remove(Request("t/0"));
  const std::vector<BlockInfo> blocks = List({Everything()});
  ASSERT_EQ(blocks.size(), 4U);
  std::uint64_t messages = 0;
  for (const BlockInfo& block : blocks) {
    messages += block.size.messages;
    EXPECT_LT(block.size.messages, block.rows);
    EXPECT_GT(block.size.bytes, 0U);
  }
  EXPECT_EQ(messages, slab_.rows().size());
}

TEST_F(BlockSizes, OfABlockOnlyThePagesThatMayHoldWantedMessagesCount) {
  const std::vector<ReadRequest> wanted{Request("t/2"), Request("t/3")};
  std::uint64_t messages = 0;
  for (const BlockInfo& block : List(wanted)) {
    messages += block.size.messages;
    if (block.pages == 1) continue;
    EXPECT_LT(block.size.messages, block.rows * 2 / 3) << "two of six topics";
  }
  EXPECT_GE(messages, Count(wanted).messages);
  slab_.Remove(Request("t/2"));
  slab_.Remove(Request("t/3"));
  for (const BlockInfo& block : List(wanted)) {
    EXPECT_LT(block.size.messages, 30U) << "neighbours in the same pages";
  }
}

TEST_F(BlockSizes, BlocksOfOtherTimesAndCommitsAreNotListed) {
  ReadRequest request = Everything();
  request.range = {1'000, 2'000};
  ASSERT_EQ(List({request}).size(), 1U);
  EXPECT_EQ(List({request})[0].first_serial, Serial{3});
  request = Everything();
  request.serial_min = Serial{5};
  request.serial_max = Serial{6};
  EXPECT_EQ(List({request}).size(), 2U);
}

TEST_F(BlockSizes, CountsWantedMessagesByCommit) {
  ExpectCounts({Everything()});
  ExpectCounts({Request("t/1")});
  std::vector<ReadRequest> several{Request("t/1"), Request("t/+")};
  several[1].streams = {StreamId{3}};
  ExpectCounts(several);
}

TEST_F(BlockSizes, CountsOnlyMessagesOfTheTimesAndCommits) {
  std::vector<ReadRequest> requests{Request("t/1"), Request("t/4")};
  for (ReadRequest& request : requests) {
    request.range = {300, 3'400};
    request.serial_min = Serial{2};
    request.serial_max = Serial{7};
  }
  ExpectCounts(requests);
  for (ReadRequest& request : requests) request.serial_max = Serial{3};
  ExpectCounts(requests);
}

TEST_F(BlockSizes, CountsNoDeletedAndNoHiddenMessages) {
  ReadRequest some = Request("t/+");
  some.range = {200, 2'500};
  slab_.Remove(some);
  ReadRequest request = Request("#");
  request.masks = {{Filter::Parse("t/5").value(), {0, 1'500}, Serial{3}}};
  ExpectCounts({request});
}

TEST_F(BlockSizes, AStreamHasItsDeletedMessagesToo) {
  StreamSizes expected;
  for (const Row& row : slab_.rows()) ++expected[StreamId{row.stream}].messages;
  slab_.Remove(Request("t/0"));
  const auto sizes = SizesByStream(slab_.Source(), {});
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  ASSERT_EQ(sizes->size(), 3U);
  for (const auto& [stream, size] : *sizes) {
    EXPECT_EQ(size.messages, expected[stream].messages);
    EXPECT_EQ(size.bytes, size.messages * 8) << "each message has as many bytes";
  }
}

TEST_F(BlockSizes, AStreamIsCountedWithoutReadingItsPages) {
  const Block block = slab_.Sealed()[0];
  const Directory directory = slab_.DirectoryOf(block.id);
  std::uint32_t within = 0;  // a page in whose block the next page begins with the same stream
  while (directory[within].first_stream != directory[within + 1].first_stream) ++within;
  const auto before = SizesByStream(slab_.Source(), {}).value();
  slab_.PutPage(SealedPageKey(block.id.value(), within), "damaged");
  const auto after = SizesByStream(slab_.Source(), {});
  ASSERT_TRUE(after.ok()) << after.status().message();
  for (const auto& [stream, size] : *after) {
    EXPECT_EQ(size.messages, before.at(stream).messages);
  }
  slab_.PutPage(SealedPageKey(block.id.value(), block.entry.pages - 1), "damaged");
  EXPECT_EQ(SizesByStream(slab_.Source(), {}).status().code(), Code::kCorruption);
}

TEST_F(BlockSizes, MayBeInterrupted) {
  int asked = 0;
  const auto sizes = SizesByStream(slab_.Source(), [&] { return ++asked == 4; });
  EXPECT_EQ(sizes.status().code(), Code::kInterrupted);
  EXPECT_EQ(asked, 4) << "it asks at each block";
}

TEST_F(BlockSizes, DamageIsAnError) {
  const Block block = slab_.Sealed()[0];
  slab_.PutPage(SealedPageKey(block.id.value(), 0), "damaged");
  const std::vector<BlockInfo> blocks = List({Everything()});
  EXPECT_EQ(CountByCommit(slab_.Source(), blocks[0], {Everything()}).status().code(),
            Code::kCorruption);
  slab_.PutRecord(RecordKey(RecordKind::kDirectory, block.id), "damaged");
  EXPECT_EQ(ListBlocks(slab_.Source(), {Request("t/1")}).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb::columnar
