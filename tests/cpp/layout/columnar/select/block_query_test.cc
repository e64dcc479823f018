#include "layout/columnar/select/block_query.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

std::vector<ReadRequest> Requests(const std::vector<std::string>& filters) {
  std::vector<ReadRequest> requests;
  for (const std::string& filter : filters) requests.push_back(Request(filter));
  return requests;
}

// A slab with a sealed block of many pages, a fresh block, and a staged one.
class BlockQueryTest : public ::testing::Test {
 protected:
  BlockQueryTest() {
    slab_.limits.page_bytes_max = 60;
    slab_.Write(Messages(200));
    slab_.Seal(SealScope::kFresh);
    slab_.Write(Messages(30));
    slab_.WriteStaged(Messages(200));
  }

  // Makes messages of twelve topics in three streams.
  Rows Messages(int count) {
    Rows rows;
    for (int i = 0; i < count; ++i) {
      const auto topic = static_cast<std::uint32_t>(random_() % 12);
      rows.push_back({1 + topic / 4, "t/" + std::to_string(topic / 2) + "/" + std::to_string(topic),
                      static_cast<std::int64_t>(random_() % 1'000), 0, 0, "value"});
    }
    return rows;
  }

  std::vector<Block> AllBlocks() const {
    std::vector<Block> blocks = slab_.Sealed();
    for (Block& block : slab_.Fresh()) blocks.push_back(std::move(block));
    return blocks;
  }
  // Expects that the query leaves out no page, and no topic of a page, that a request wants.
  // Returns how many pages it leaves out.
  std::size_t ExpectNothingMissed(const std::vector<ReadRequest>& any_of) const {
    const BlockQuery query(any_of);
    BlockReader reader(slab_.Source());
    std::size_t left_out = 0;
    for (const Block& block : AllBlocks()) {
      const bool may_hold = query.MayHold(reader, block).value();
      const BlockQuery::Pages pages = query.PagesOf(block, &reader).value();
      EXPECT_TRUE(std::is_sorted(pages.numbers.begin(), pages.numbers.end()));
      std::uint64_t rows = 0;
      for (std::uint32_t number = 0; number < block.entry.pages; ++number) {
        const auto page = reader.LoadPage(block, number).value();
        const bool has_page =
            std::binary_search(pages.numbers.begin(), pages.numbers.end(), number);
        if (has_page) rows += page->rows();
        left_out += has_page ? 0 : 1;
        const std::vector<bool> topics = query.TopicsOf(*page);
        for (std::uint32_t row = 0; row < page->rows(); ++row) {
          const Row found = RowOf(*page, row);
          const auto wants = [&](const ReadRequest& request) {
            return ColumnarSlab::IsWanted(request, found);
          };
          const bool is_wanted = std::any_of(any_of.begin(), any_of.end(), wants);
          EXPECT_EQ(topics[page->topic_of(row)] && query.rows().Wants(*page, row), is_wanted);
          EXPECT_TRUE(!is_wanted || (has_page && may_hold)) << found.topic << " at " << found.time;
        }
      }
      EXPECT_EQ(pages.rows, rows);
    }
    return left_out;
  }

  std::mt19937_64 random_{1};
  ColumnarSlab slab_;
};

TEST_F(BlockQueryTest, EveryTopicIsWantedOnlyIfARequestSaysSo) {
  EXPECT_FALSE(BlockQuery(Requests({"#"})).wants_every_topic()) << "it leaves out '$…'";
  ReadRequest everything;
  everything.filter = Filter::Everything();
  EXPECT_TRUE(BlockQuery({Request("a"), everything}).wants_every_topic());
  everything.streams = {StreamId{1}};
  EXPECT_FALSE(BlockQuery({everything}).wants_every_topic());
}

TEST_F(BlockQueryTest, WithEveryTopicWantedNothingIsLeftOut) {
  ReadRequest everything;
  everything.filter = Filter::Everything();
  EXPECT_EQ(ExpectNothingMissed({everything}), 0U);
}

TEST_F(BlockQueryTest, LeavesOutPagesWithoutTheWantedTopics) {
  EXPECT_GT(ExpectNothingMissed(Requests({"t/0/+"})), 20U);
  EXPECT_GT(ExpectNothingMissed(Requests({"t/0/0", "t/5/#"})), 20U);
  EXPECT_EQ(ExpectNothingMissed(Requests({"t/0/0", "t/#"})), 0U);
}

TEST_F(BlockQueryTest, LeavesOutPagesWithoutTheWantedStreams) {
  std::vector<ReadRequest> requests = Requests({"#", "t/5/11"});
  requests[0].streams = {StreamId{1}};
  requests[1].streams = {StreamId{2}, StreamId{3}};
  EXPECT_GT(ExpectNothingMissed(requests), 20U);
}

TEST_F(BlockQueryTest, LeavesOutPagesOfOtherTimesAndCommits) {
  std::vector<ReadRequest> requests = Requests({"t/0/#", "t/3/#"});
  for (ReadRequest& request : requests) request.range = {990, 1'000};
  EXPECT_GT(ExpectNothingMissed(requests), 20U);
  for (ReadRequest& request : requests) {
    request.range = {};
    request.serial_max = Serial{1};
  }
  EXPECT_GT(ExpectNothingMissed(requests), 20U);
}

TEST_F(BlockQueryTest, ABlockWithoutAnyOfTheWordsOrStreamsIsNotAskedForPages) {
  const BlockReader reader(slab_.Source());
  ReadRequest stream = Request("#");
  stream.streams = {StreamId{9}};
  for (const Block& block : AllBlocks()) {
    EXPECT_FALSE(BlockQuery({stream}).MayHold(reader, block).value());
    EXPECT_TRUE(BlockQuery({stream, Request("t/#")}).MayHold(reader, block).value());
    EXPECT_EQ(BlockQuery(Requests({"other/1", "another/+"})).MayHold(reader, block).value(),
              !block.is_paged())
        << "only paged blocks know their words";
  }
}

TEST_F(BlockQueryTest, VisitsTheBlocksThatMayHoldWantedRows) {
  const BlockReader reader(slab_.Source());
  const auto visited = [&](const std::vector<ReadRequest>& requests) {
    std::set<BlockId> ids;
    const Status status = BlockQuery(requests).ForEachBlock(reader, [&](const Block& block) {
      EXPECT_TRUE(ids.insert(block.id).second);
      return Status::Ok();
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return ids;
  };
  const BlockId sealed = slab_.Sealed()[0].id;
  const std::vector<Block> fresh = slab_.Fresh();
  std::vector<ReadRequest> requests = Requests({"t/#", "other"});
  EXPECT_EQ(visited(requests), (std::set<BlockId>{sealed, fresh[0].id, fresh[1].id}));
  for (ReadRequest& request : requests) {
    request.serial_min = Serial{2};
    request.serial_max = Serial{2};
  }
  EXPECT_EQ(visited(requests), (std::set<BlockId>{fresh[0].id}));
}

TEST_F(BlockQueryTest, AnErrorOfAVisitEndsTheVisits) {
  const BlockReader reader(slab_.Source());
  for (const int visits_max : {1, 2}) {  // the first block is sealed, the second is fresh
    int visits = 0;
    const Status status = BlockQuery(Requests({"#"})).ForEachBlock(reader, [&](const Block&) {
      return ++visits == visits_max ? StorageFault("a test") : Status::Ok();
    });
    EXPECT_EQ(status.code(), Code::kStorage);
    EXPECT_EQ(visits, visits_max);
  }
}

TEST_F(BlockQueryTest, ADamagedRecordIsAnError) {
  const Block block = slab_.Sealed()[0];
  BlockReader reader(slab_.Source());
  const BlockQuery query(Requests({"t/0/#"}));
  slab_.PutRecord(RecordKey(RecordKind::kWordFilter, block.id), "damaged");
  EXPECT_EQ(query.MayHold(reader, block).status().code(), Code::kCorruption);
  const auto visit = [](const Block&) { return Status::Ok(); };
  EXPECT_EQ(query.ForEachBlock(reader, visit).code(), Code::kCorruption);
  slab_.PutRecord(RecordKey(RecordKind::kDirectory, block.id), "damaged");
  EXPECT_EQ(query.PagesOf(block, &reader).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb::columnar
