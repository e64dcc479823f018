#include "layout/columnar/read/unordered_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "layout/blocks.h"
#include "layout/columnar/mixed_blocks.h"

namespace topicdb::columnar {
namespace {

class UnorderedReaderTest : public MixedBlocksTest {
 protected:
  // Returns the messages that any of the requests wants, sorted.
  Rows Expected(const std::vector<ReadRequest>& any_of) const {
    Rows rows = AsRead(Wanted(any_of));
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  // Returns everything that a reader gives, in its order.
  Rows ReadAll(const std::vector<ReadRequest>& any_of, const ReadLimits& limits) const {
    Rows rows;
    const auto reader = NewUnorderedReader(slab_.Source(), any_of);
    while (true) {
      Batch batch;
      const auto outcome = reader->Read(limits, &batch);
      EXPECT_TRUE(outcome.ok()) << outcome.status().message();
      EXPECT_LE(batch.size(), limits.rows_max);
      EXPECT_TRUE(batch.size() <= 1 || batch.bytes() <= limits.bytes_max);
      for (std::size_t row = 0; row < batch.size(); ++row) {
        rows.push_back({0, std::string(batch.topic(row)), batch.timestamp(row), 0, 0,
                        std::string(batch.value(row))});
      }
      if (!outcome.ok() || *outcome == ReadOutcome::kExhausted) return rows;
    }
  }
  void ExpectReads(std::vector<ReadRequest> any_of) const {
    Rows expected = Expected(any_of);
    for (const bool with_values : {true, false}) {
      for (ReadRequest& request : any_of) request.with_values = with_values;
      if (!with_values) expected = WithoutValues(std::move(expected));
      std::sort(expected.begin(), expected.end());
      for (const ReadLimits& limits : {kNoLimits, ReadLimits{1, 1 << 20, 1'000},
                                       ReadLimits{7, 1 << 20, 10}, ReadLimits{1'000, 150, 1'000}}) {
        Rows found = ReadAll(any_of, limits);
        std::sort(found.begin(), found.end());
        EXPECT_EQ(found, expected);
      }
      ExpectReadsWithoutTopics(any_of, expected);
    }
  }
  // Expects that a read without topics gives the same messages besides.
  void ExpectReadsWithoutTopics(std::vector<ReadRequest> any_of, Rows expected) const {
    for (ReadRequest& request : any_of) request.with_topics = false;
    for (Row& row : expected) row.topic.clear();
    std::sort(expected.begin(), expected.end());
    for (const ReadLimits& limits : {kNoLimits, ReadLimits{7, 1 << 20, 10}}) {
      Rows found = ReadAll(any_of, limits);
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, expected);
    }
  }
};

TEST_P(UnorderedReaderTest, ReadsEachMessageOnceWhateverTheLimits) { ExpectReads({Request("#")}); }

TEST_P(UnorderedReaderTest, ReadsSomeTopicsAndStreams) {
  ExpectReads({Request("t/3")});
  std::vector<ReadRequest> requests{Request("t/1"), Request("t/+")};
  requests[1].streams = {StreamId{2}};
  ExpectReads(requests);
  ExpectReads({Request("absent/#")});
}

TEST_P(UnorderedReaderTest, WhatTwoRequestsWantComesOnce) {
  ExpectReads({Request("t/+"), Request("t/2"), Request("t/2")});
}

TEST_P(UnorderedReaderTest, ReadsSomeTimesAndCommits) {
  std::vector<ReadRequest> requests{Request("t/1"), Request("t/4")};
  for (ReadRequest& request : requests) request.range = {300, 900};
  ExpectReads(requests);
  for (ReadRequest& request : requests) {
    request.serial_min = Serial{2};
    request.serial_max = Serial{4};
  }
  ExpectReads(requests);
}

TEST_P(UnorderedReaderTest, ReadsNoDeletedAndNoHiddenMessages) {
  ReadRequest gone = Request("t/+");
  gone.range = {200, 600};
  slab_.Remove(gone);
  ExpectReads({Request("#")});
  ReadRequest masked = Request("#");
  masked.masks = {{Filter::Parse("t/5").value(), {0, 800}, Serial{3}}};
  ExpectReads({masked});
}

TEST_P(UnorderedReaderTest, KeepsTheOrderInWhichMessagesAreStored) {
  Rows expected;
  BlockReader reader(slab_.Source());
  std::vector<Block> blocks = slab_.Sealed();
  const std::vector<Block> fresh = slab_.Fresh();
  blocks.insert(blocks.end(), fresh.rbegin(), fresh.rend());
  for (const Block& block : blocks) {
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      const Rows rows = RowsOf(*reader.LoadPage(block, page).value());
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
  }
  EXPECT_EQ(ReadAll({Request("#")}, kNoLimits), AsRead(expected));
}

TEST_P(UnorderedReaderTest, ItsPositionStays) {
  ReadRequest request = Request("#");
  request.position.timestamp = 77;
  const auto reader = NewUnorderedReader(slab_.Source(), {request});
  Batch batch;
  ASSERT_TRUE(reader->Read({10, 1 << 20, 1'000}, &batch).ok());
  EXPECT_EQ(reader->position(), request.position);
}

TEST_P(UnorderedReaderTest, EndsAReadThatExaminesMuchAndFindsNothing) {
  ReadRequest request = Request("t/+");
  request.masks = {{Filter::Parse("#").value(), {}, kLastSerial}};
  const auto reader = NewUnorderedReader(slab_.Source(), {request});
  Batch batch;
  const auto outcome = reader->Read({100, 1 << 20, 60}, &batch);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(*outcome, ReadOutcome::kMore);
  EXPECT_TRUE(batch.empty());
  EXPECT_GT(reader->counters().rows_examined, 60U);
  EXPECT_LT(reader->counters().rows_examined, slab_.rows().size());
}

TEST_P(UnorderedReaderTest, CountsWhatItDoes) {
  const auto reader = NewUnorderedReader(slab_.Source(), {Request("t/3")});
  Batch batch;
  ASSERT_EQ(reader->Read(kNoLimits, &batch).value(), ReadOutcome::kExhausted);
  const ReadCounters counters = reader->counters();
  EXPECT_EQ(counters.blocks, 5U);
  EXPECT_EQ(counters.rows_matched, batch.size());
  EXPECT_LT(counters.pages_read, 20U) << "of some 30";
  EXPECT_EQ(counters.pages, counters.pages_read + counters.pages_skipped_by_topic);
  EXPECT_GE(counters.rows_examined, counters.rows_matched);
  EXPECT_GT(counters.bytes_read, batch.bytes() / 4);
}

TEST_P(UnorderedReaderTest, CountsWhatItSkips) {
  ReadRequest request = Request("t/3");
  request.serial_max = Serial{2};  // of the sealed blocks
  const auto reader = NewUnorderedReader(slab_.Source(), {request});
  Batch batch;
  ASSERT_EQ(reader->Read(kNoLimits, &batch).value(), ReadOutcome::kExhausted);
  const ReadCounters counters = reader->counters();
  EXPECT_EQ(counters.blocks, 5U);
  EXPECT_EQ(counters.blocks_skipped_by_time, 3U);
  EXPECT_GT(counters.pages_skipped_by_topic, 0U);
  EXPECT_EQ(counters.pages,
            counters.pages_read + counters.pages_skipped_by_topic + counters.pages_skipped_by_time);
}

TEST_P(UnorderedReaderTest, SerialsComeWithoutTopicsToo) {
  ReadRequest request = Request("t/+");
  request.with_values = false;
  std::vector<std::uint64_t> serials[2];
  for (const bool with_topics : {false, true}) {
    request.with_topics = with_topics;
    const auto reader = NewUnorderedReader(slab_.Source(), {request});
    Batch batch(/*keeps_serials=*/true);
    ASSERT_EQ(reader->Read(kNoLimits, &batch).value(), ReadOutcome::kExhausted);
    serials[with_topics ? 1 : 0].assign(batch.serials().begin(), batch.serials().end());
    EXPECT_EQ(batch.serials().size(), batch.size());
  }
  EXPECT_EQ(serials[0], serials[1]);
  EXPECT_FALSE(serials[0].empty());
}

TEST_P(UnorderedReaderTest, DamageIsAnError) {
  slab_.PutPage(SealedPageKey(slab_.Sealed()[1].id.value(), 2), "damaged");
  const auto reader = NewUnorderedReader(slab_.Source(), {Request("#")});
  Batch batch;
  EXPECT_EQ(reader->Read(kNoLimits, &batch).status().code(), Code::kCorruption);
}

// Writes one commit with values of this size.
void WriteLarge(ColumnarSlab* slab, int count, std::size_t value_size) {
  Rows rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back({1, "a", i, 0, 0, std::string(value_size, static_cast<char>('a' + i % 26))});
  }
  slab->Write(std::move(rows));
}

TEST(UnorderedReader, ManyValuesThatLieTogetherAreLentByTheirPage) {
  ColumnarSlab slab;
  WriteLarge(&slab, 1'000, 300);
  const auto reader = NewUnorderedReader(slab.Source(), {Request("#")});
  Batch batch;
  ASSERT_EQ(reader->Read({900, 1 << 20, 10'000}, &batch).value(), ReadOutcome::kMore);
  EXPECT_EQ(batch.size(), 900U);
  EXPECT_EQ(batch.value_bytes().size(), 300'000U) << "the page's, not those of 900 values";
  EXPECT_EQ(batch.value(899), std::string(300, 'a' + 899 % 26));
  Batch rest;
  ASSERT_EQ(reader->Read({900, 1 << 20, 10'000}, &rest).value(), ReadOutcome::kExhausted);
  ASSERT_EQ(rest.size(), 100U);
  EXPECT_EQ(rest.timestamp(0), 900);
}

TEST(UnorderedReader, AMessageLargerThanTheLimitComesAlone) {
  ColumnarSlab slab;
  WriteLarge(&slab, 3, 500'000);
  const auto reader = NewUnorderedReader(slab.Source(), {Request("#")});
  for (int i = 0; i < 3; ++i) {
    Batch batch;
    ASSERT_TRUE(reader->Read({10, 100, 1'000}, &batch).ok());
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(batch.timestamp(0), i);
  }
}

TEST(UnorderedReader, ABatchKeepsSerialsIfItIsAskedTo) {
  ColumnarSlab slab;
  slab.Write({{1, "a", 1, 0, 0, "x"}});
  slab.Write({{1, "a", 2, 0, 0, std::string(200'000, 'y')}});
  const auto reader = NewUnorderedReader(slab.Source(), {Request("#")});
  for (const std::uint64_t serial : {2, 1}) {  // the value of the later commit is lent
    Batch batch(/*keeps_serials=*/true);
    ASSERT_TRUE(reader->Read({1, 1 << 20, 1'000}, &batch).ok());
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(batch.serial(0), Serial{serial});
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, UnorderedReaderTest,
                         ::testing::Values(PageForm::kApart, PageForm::kTogether),
                         [](const auto& form) {
                           return form.param == PageForm::kApart ? "Apart" : "Together";
                         });

}  // namespace
}  // namespace topicdb::columnar
