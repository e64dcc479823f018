#include "layout/columnar/read/last_finder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

// Returns the messages that a finder gives, sorted by topic. Their streams are 0.
Rows Last(const ColumnarSlab& slab, const ReadRequest& request, ReadCounters* counters = nullptr) {
  LastMessages found;
  const auto reader = slab.layout().NewLastReader(slab.Source(), request, &found);
  while (true) {
    const auto outcome = reader->Read(7);  // stops after a few rows
    EXPECT_TRUE(outcome.ok()) << outcome.status().message();
    if (!outcome.ok() || *outcome == ReadOutcome::kExhausted) break;
  }
  if (counters != nullptr) *counters = reader->counters();
  Rows rows;
  for (const LastMessages::Number number : found.ByTopic()) {
    const LastMessages::Entry& entry = found.entry(number);
    rows.push_back({0, std::string(entry.topic), entry.rank.timestamp, entry.rank.serial.value(),
                    entry.rank.index, std::string(entry.value)});
  }
  return rows;
}

Rows ExpectedLast(const ColumnarSlab& slab, const ReadRequest& request) {
  std::map<std::string, Row> last;
  for (Row row : slab.Expected(request)) {  // in the order of time, so the last one stays
    row.stream = 0;
    last[row.topic] = row;
  }
  Rows rows;
  for (const auto& [topic, row] : last) rows.push_back(row);
  return rows;
}

Status Fault(const ColumnarSlab& slab, const ReadRequest& request) {
  LastMessages found;
  const auto reader = slab.layout().NewLastReader(slab.Source(), request, &found);
  while (true) {
    const auto outcome = reader->Read(1'000'000);
    if (!outcome.ok()) return outcome.status();
    if (*outcome == ReadOutcome::kExhausted) return Status::Ok();
  }
}

Rows Messages(std::size_t count, std::size_t topics, std::int64_t first, std::int64_t span,
              std::mt19937_64* random) {
  Rows rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t topic = (*random)() % topics;
    rows.push_back(
        {static_cast<std::uint32_t>(1 + topic / 5), "t/" + std::to_string(topic),
         first + static_cast<std::int64_t>((*random)() % static_cast<std::uint64_t>(span)), 0, 0,
         std::to_string((*random)())});
  }
  return rows;
}

// Returns requests with all sorts of filters, ranges, masks and streams.
std::vector<ReadRequest> Requests() {
  std::vector<ReadRequest> requests;
  for (const char* filter : {"#", "t/+", "t/3", "none", "+/7"}) {
    for (const TimeRange& range :
         {TimeRange{}, TimeRange{{}, 40}, TimeRange{60, {}}, TimeRange{50, 70}}) {
      ReadRequest request = Request(filter);
      request.range = range;
      requests.push_back(request);
      request.masks.push_back({Filter::Parse("t/3").value(), {30, {}}, kLastSerial});
      // Hides the commits 3 and 4.
      request.masks.push_back({Filter::Everything(), {}, Serial{4}, Serial{3}});
      requests.push_back(request);
    }
  }
  ReadRequest request = Request("#");
  request.streams = {StreamId{1}, StreamId{3}};
  requests.push_back(request);
  return requests;
}

void ExpectAll(const ColumnarSlab& slab) {
  for (const ReadRequest& request : Requests()) {
    EXPECT_EQ(Last(slab, request), ExpectedLast(slab, request)) << request.filter.text();
  }
}

class LastFinderTest : public testing::TestWithParam<int> {};

TEST_P(LastFinderTest, FindsTheNewestWhateverTheOrder) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  ColumnarSlab slab;
  for (int commit = 0; commit < 12; ++commit) {
    // From commit to commit, times rise, are all over, or fall. If the span is 3, many are equal.
    const std::int64_t first = GetParam() % 3 == 0   ? 8 * commit
                               : GetParam() % 3 == 1 ? 0
                                                     : 90 - 8 * commit;
    slab.Write(Messages(30, 20, first, GetParam() % 2 == 0 ? 10 : 3, &random));
    if (random() % 2 == 0) slab.Seal(SealScope::kFresh);
    if (random() % 4 == 0) {
      ReadRequest deleted = Request(random() % 2 == 0 ? "t/3" : "#");
      deleted.range = {static_cast<std::int64_t>(random() % 60), {}};
      slab.Remove(deleted);
    }
    if (commit % 3 == 0) ExpectAll(slab);
  }
  ExpectAll(slab);
  slab.SealAll(SealScope::kClosed);
  ExpectAll(slab);
}

// Several shards have messages of the same topics. Commits of one shard say nothing of those of
// another, so their serials must not decide what is passed by.
TEST_P(LastFinderTest, OfEqualTimesThatOfTheGreatestShardCounts) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  constexpr std::size_t kSlabs = 3;
  ColumnarSlab slabs[kSlabs];
  for (std::size_t shard = 0; shard < kSlabs; ++shard) {
    const int commits = 1 + static_cast<int>(random() % 12);
    for (int commit = 0; commit < commits; ++commit) {
      slabs[shard].Write(Messages(30, 20, 0, 3, &random));
      if (random() % 2 == 0) slabs[shard].Seal(SealScope::kFresh);
    }
    if (random() % 2 == 0) slabs[shard].SealAll(SealScope::kClosed);
  }
  std::size_t order[kSlabs] = {0, 1, 2};
  do {
    LastMessages found;
    std::map<std::string, std::pair<std::int64_t, std::string>> expected;  // time, and value
    for (const std::size_t shard : order) {
      found.EnterShard(static_cast<std::uint32_t>(shard));
      const auto reader =
          slabs[shard].layout().NewLastReader(slabs[shard].Source(), Request("#"), &found);
      while (reader->Read(7).value() == ReadOutcome::kMore) {
      }
    }
    for (std::size_t shard = 0; shard < kSlabs; ++shard) {
      for (const Row& row : ExpectedLast(slabs[shard], Request("#"))) {
        auto& known = expected[row.topic];
        if (row.time >= known.first) known = {row.time, row.value};
      }
    }
    ASSERT_EQ(found.size(), expected.size());
    for (const LastMessages::Number number : found.ByTopic()) {
      const LastMessages::Entry& entry = found.entry(number);
      const auto& [time, value] = expected.at(std::string(entry.topic));
      EXPECT_EQ(entry.rank.timestamp, time) << entry.topic;
      EXPECT_EQ(entry.value, value) << entry.topic;
    }
  } while (std::next_permutation(std::begin(order), std::end(order)));
}

INSTANTIATE_TEST_SUITE_P(Orders, LastFinderTest, testing::Range(0, 12));

TEST(LastFinder, ATopicOfManyPagesIsReadFromItsEnd) {
  ColumnarSlab slab;
  slab.limits.block_bytes_max = 1 << 20;
  slab.limits.fresh_bytes_max = 1 << 20;
  Rows rows;
  for (std::int64_t time = 0; time < 2'000; ++time) {
    rows.push_back({1, "long", time, 0, 0, "value " + std::to_string(time)});
  }
  rows.push_back({1, "after", 7, 0, 0, "x"});
  slab.Write(rows);
  slab.SealAll(SealScope::kFresh);
  ASSERT_EQ(slab.Sealed().size(), 1U);
  ASSERT_GT(slab.Sealed()[0].entry.pages, 20U);
  for (const char* filter : {"#", "long"}) {
    ReadRequest request = Request(filter);
    for (const auto end : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1'000),
                           std::optional<std::int64_t>(1)}) {
      request.range.end = end;
      ReadCounters counters;
      EXPECT_EQ(Last(slab, request, &counters), ExpectedLast(slab, request));
      EXPECT_LE(counters.pages_read, 4U) << filter << " " << end.value_or(-1);
    }
  }
  ReadRequest deleted = Request("long");
  deleted.range.start = 100;
  slab.Remove(deleted);
  ExpectAll(slab);
  EXPECT_EQ(Last(slab, Request("long")).at(0).time, 99);
}

TEST(LastFinder, OlderBlocksOfTheSameTopicsAreNotRead) {
  ColumnarSlab slab;
  for (std::int64_t commit = 0; commit < 7; ++commit) {
    Rows rows;
    for (std::uint32_t topic = 0; topic < 50; ++topic) {
      rows.push_back({1 + topic / 20, "t/" + std::to_string(topic), 100 * commit + topic, 0, 0,
                      std::to_string(commit)});
    }
    slab.Write(std::move(rows));
    slab.Seal(SealScope::kFresh);
  }
  ASSERT_EQ(slab.Sealed().size(), 7U);
  ReadCounters counters;
  EXPECT_EQ(Last(slab, Request("#"), &counters), ExpectedLast(slab, Request("#")));
  EXPECT_EQ(counters.blocks, 7U);
  EXPECT_EQ(counters.blocks_skipped_by_time, 6U);
  EXPECT_EQ(counters.pages_read, slab.Sealed().back().entry.pages);
  // The finder also finds a topic that has gone quiet.
  slab.Write({{1, "t/quiet", 1, 0, 0, "q"}});
  slab.SealAll(SealScope::kDue);
  slab.Seal(SealScope::kFresh);
  EXPECT_EQ(Last(slab, Request("#")), ExpectedLast(slab, Request("#")));
}

TEST(LastFinder, ALateUploadCostsNoPagesOfOtherBlocks) {
  ColumnarSlab slab;
  slab.limits.fresh_bytes_max = 1 << 20;
  for (std::int64_t commit = 0; commit < 6; ++commit) {
    // Each block spans a long time, since one device sends old messages.
    slab.Write({{1, "late", 10'000 * commit, 0, 0, std::string(400, 'x')},
                {1, "now", 1'000'000 + 10'000 * commit, 0, 0, std::string(400, 'y')}});
    slab.Seal(SealScope::kFresh);
  }
  ASSERT_EQ(slab.Sealed().size(), 6U);
  ReadCounters counters;
  EXPECT_EQ(Last(slab, Request("#"), &counters), ExpectedLast(slab, Request("#")));
  EXPECT_EQ(counters.pages_read, slab.Sealed().back().entry.pages);
}

// Blocks that earlier versions made have no list.
TEST(LastFinder, BlocksWithoutAListAreRead) {
  std::mt19937_64 random(3);
  ColumnarSlab slab;
  for (int commit = 0; commit < 5; ++commit) {
    slab.Write(Messages(40, 20, 10 * commit, 20, &random));
    slab.Seal(SealScope::kFresh);
    if (commit % 2 == 0) {
      const BlockId block = slab.Sealed().back().id;
      ASSERT_TRUE(
          slab.db().Delete({}, slab.families().main, RecordKey(RecordKind::kTopics, block)).ok());
    }
  }
  ExpectAll(slab);
}

TEST(LastFinder, BlocksOfHardlyAnythingButTopicsHaveNoList) {
  std::mt19937_64 random(6);
  ColumnarSlab slab;
  slab.limits.block_bytes_max = slab.limits.fresh_bytes_max = 4 << 20;
  for (const std::size_t value_bytes : {0, 900}) {
    Rows rows;
    for (std::int64_t i = 0; i < 2'000; ++i) {
      const std::string topic = "t/" + std::to_string(random()) + std::to_string(random());
      rows.push_back({1, topic, i, 0, 0, std::string(value_bytes, 'x')});
    }
    slab.Write(std::move(rows));
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
    EXPECT_EQ(slab.CountOf(RecordKind::kTopics), value_bytes == 0 ? 0U : 1U);
    EXPECT_EQ(Last(slab, Request("#")), ExpectedLast(slab, Request("#")));
  }
}

TEST(LastFinder, AListOfAnotherBlockIsNotUsed) {
  std::mt19937_64 random(4);
  ColumnarSlab slab;
  for (int commit = 0; commit < 2; ++commit) {
    slab.Write(Messages(40, 20, 10 * commit, 20, &random));
    slab.Seal(SealScope::kFresh);
  }
  TopicListBuilder other;
  other.Add(StreamId{1}, "t/1", 0, 5);
  const std::string record = other.Build(1, 1, {5, 5, Serial{1}, Serial{1}}).value();
  for (const Block& block : slab.Sealed()) {
    ASSERT_TRUE(slab.db()
                    .Put({}, slab.families().main, RecordKey(RecordKind::kTopics, block.id), record)
                    .ok());
  }
  ExpectAll(slab);
}

TEST(LastFinder, DamageOfAListIsFound) {
  std::mt19937_64 random(5);
  ColumnarSlab slab;
  slab.Write(Messages(100, 20, 0, 50, &random));
  slab.Seal(SealScope::kFresh);
  const Block block = slab.Sealed().at(0);
  const std::string key = RecordKey(RecordKind::kTopics, block.id);
  std::string record;
  ASSERT_TRUE(slab.db().Get({}, slab.families().main, key, &record).ok());
  for (std::size_t i = 0; i < record.size(); ++i) {
    std::string flipped = record;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    ASSERT_TRUE(slab.db().Put({}, slab.families().main, key, flipped).ok());
    const Status fault = Fault(slab, Request("#"));
    EXPECT_EQ(fault.code(), Code::kCorruption);
    EXPECT_NE(fault.message().find("block " + std::to_string(block.id.value())), std::string::npos);
  }
  // The list is whole and belongs to this block, but has a topic that the block does not have.
  TopicListBuilder wrong;
  wrong.Add(StreamId{1}, "t/absent", 0, std::nullopt);
  const std::string absent =
      wrong.Build(block.entry.rows, block.entry.pages, block.entry.extent).value();
  ASSERT_TRUE(slab.db().Put({}, slab.families().main, key, absent).ok());
  EXPECT_EQ(Fault(slab, Request("#")).code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb::columnar
