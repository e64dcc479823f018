#include "layout/columnar/merge/page_merge.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "layout/columnar/columnar_slab.h"
#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMemories[] = {1, 10'000, std::size_t{96} << 20};

// Reads through a PageMerge, and consumes a random number of rows at a time.
Rows Merge(const ColumnarSlab& slab, const ReadRequest& request, MergeOrder order,
           std::uint64_t serial_min = 0, ReadCounters* counters = nullptr) {
  std::mt19937_64 random(1);
  PageMerge merge(slab.Source(), request, order, std::nullopt, Serial{serial_min});
  Rows rows;
  while (true) {
    const auto state = merge.Prepare(random() % 300);
    EXPECT_TRUE(state.ok()) << state.status().message();
    if (!state.ok() || *state == PageMerge::State::kExhausted) break;
    if (*state == PageMerge::State::kPaused) continue;
    const auto ready = merge.Ready();
    EXPECT_FALSE(ready.empty());
    const std::size_t count = random() % (ready.size() + 1);
    for (const MergedRow& row : ready.first(count)) {
      rows.push_back(RowOf(merge.page(row), row.row));
    }
    merge.Consume(count);
  }
  if (counters != nullptr) *counters = merge.counters();
  return rows;
}

Rows InCommitOrder(Rows rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.serial, a.index) < std::pair(b.serial, b.index);
  });
  return rows;
}

const std::vector<std::string>& Topics() {
  static const std::vector<std::string> topics{"a/b/1", "a/b/2", "a/c/1", "a",    "a/b", "b//1",
                                               "/",     "b/b/1", "b/b/2", "long", "$s/b"};
  return topics;
}

// Makes a commit of messages at about `now`, some of them late, and some far from all others.
Rows RandomCommit(std::int64_t now, std::mt19937_64* random) {
  Rows rows;
  for (std::uint64_t left = 1 + (*random)() % 25; left > 0; --left) {
    const std::uint64_t topic = (*random)() % Topics().size();
    Row row;
    row.stream = static_cast<std::uint32_t>(1 + topic % 3);
    row.topic = Topics()[topic];
    row.time = now + static_cast<std::int64_t>((*random)() % 5);
    if ((*random)() % 8 == 0) row.time = static_cast<std::int64_t>((*random)() % 1'000);
    if ((*random)() % 100 == 0) row.time = std::numeric_limits<std::int64_t>::max();
    row.value = std::to_string((*random)()) + std::string((*random)() % 20, 'v');
    rows.push_back(std::move(row));
  }
  return rows;
}

// Writes commits, and seals and deletes at random. Leaves fresh and sealed blocks, with keys and
// values apart and together, and deleted messages.
void Fill(ColumnarSlab* slab, int commits, std::mt19937_64* random) {
  for (int commit = 0; commit < commits; ++commit) {
    slab->Write(RandomCommit(20 * commit, random));
    slab->limits.values_apart = (*random)() % 3 != 0;
    if ((*random)() % 6 == 0) slab->Seal(SealScope::kFresh);
    if ((*random)() % 15 == 0) slab->Seal(SealScope::kClosed);
    if ((*random)() % 8 != 0) continue;
    ReadRequest request = Request(Topics()[(*random)() % Topics().size()]);
    request.range.end = static_cast<std::int64_t>((*random)() % 1'000);
    slab->Remove(request);
  }
}

ReadRequest RandomRequest(const ColumnarSlab& slab, std::mt19937_64* random) {
  static const std::vector<std::string> filters{"#",     "a/#",    "+/b/+", "a/b/1", "b//1", "/",
                                                "+/+/1", "long/#", "$s/#",  "none",  "b/b/#"};
  ReadRequest request = Request(filters[(*random)() % filters.size()]);
  const auto time = [&] { return static_cast<std::int64_t>((*random)() % 1'000); };
  if ((*random)() % 2 == 0) request.range.start = time();
  if ((*random)() % 2 == 0) request.range.end = request.range.start.value_or(0) + time();
  if ((*random)() % 3 == 0) request.streams = {StreamId{1}, StreamId{3}};
  if ((*random)() % 4 == 0) request.serial_max = Serial{(*random)() % 60};
  if ((*random)() % 3 == 0) {
    request.masks.push_back({Filter::Parse("+/b/#").value(), {time(), std::nullopt}, Serial{30}});
  }
  if ((*random)() % 3 == 0) {
    const Row& row = slab.rows()[(*random)() % slab.rows().size()];
    request.position = {Position::Kind::kAfterMessage, row.time, Serial{row.serial}, row.index, {}};
  } else if ((*random)() % 2 == 0) {
    request.position.timestamp = time();
  }
  request.memory_bytes_max = kMemories[(*random)() % std::size(kMemories)];
  request.with_values = (*random)() % 4 != 0;
  return request;
}

// Returns the messages that a read must find, with or without values.
Rows Wanted(const ColumnarSlab& slab, const ReadRequest& request) {
  const Rows rows = slab.Expected(request);
  return request.with_values ? rows : WithoutValues(rows);
}

TEST(PageMerge, ReadsFindWhatASortedListHolds) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 4; ++round) {
    ColumnarSlab slab;
    Fill(&slab, 60, &random);
    for (int read = 0; read < 150; ++read) {
      const ReadRequest request = RandomRequest(slab, &random);
      const ReadLimits limits{1 + random() % 200, 100 + random() % 10'000, random() % 500};
      ASSERT_EQ(ReadAll(slab, request, limits), AsRead(Wanted(slab, request)))
          << request.filter.text() << ", read " << read << " of round " << round;
    }
  }
}

TEST(PageMerge, InTheOrderOfCommitsReadsFindWhatASortedListHolds) {
  std::mt19937_64 random(2);
  ColumnarSlab slab;
  Fill(&slab, 60, &random);
  for (int read = 0; read < 200; ++read) {
    ReadRequest request = RandomRequest(slab, &random);
    request.position = {};
    const std::uint64_t serial_min = random() % 70;
    Rows expected = InCommitOrder(Wanted(slab, request));
    std::erase_if(expected, [&](const Row& row) { return row.serial < serial_min; });
    ASSERT_EQ(Merge(slab, request, MergeOrder::kSerial, serial_min), expected)
        << request.filter.text() << " from " << serial_min;
  }
}

TEST(PageMerge, WhoFollowsTheLogFindsCommitsInAnySealedBlock) {
  ColumnarSlab slab;
  for (int block = 0; block < 3; ++block) {
    for (int commit = 0; commit < 4; ++commit) {
      slab.Write({{1, "t", 10 * block, 0, 0, "v" + std::to_string(4 * block + commit)}});
    }
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
  }
  ASSERT_EQ(slab.Sealed().size(), 3U);
  const ReadRequest all = Request("#");
  for (std::uint64_t serial = 1; serial <= 13; ++serial) {
    Rows expected = InCommitOrder(slab.Expected(all));
    std::erase_if(expected, [&](const Row& row) { return row.serial < serial; });
    EXPECT_EQ(Merge(slab, all, MergeOrder::kSerial, serial), expected) << serial;
  }
}

TEST(PageMerge, PagesThatOverlapAreReadOnceWithHoweverLittleMemory) {
  std::mt19937_64 random(3);
  ColumnarSlab slab;
  for (int commit = 0; commit < 30; ++commit) {  // each commit spans all times
    Rows rows;
    for (int i = 0; i < 60; ++i) {
      rows.push_back({1, "t/" + std::to_string(i % 4), static_cast<std::int64_t>(random() % 50), 0,
                      0, std::to_string(random()) + std::string(2'000, 'x')});
    }
    slab.Write(std::move(rows));
    if (commit % 10 == 9) slab.Seal(SealScope::kFresh);
    if (commit == 22) slab.Write({{1, "t/1", 5, 0, 0, std::string(200'000, 'y')}});
  }
  const ReadRequest request = Request("#");
  for (const MergeOrder order : {MergeOrder::kTime, MergeOrder::kSerial}) {
    Rows expected = slab.Expected(request);
    if (order == MergeOrder::kSerial) expected = InCommitOrder(std::move(expected));
    std::vector<std::uint64_t> rows_spilled;
    for (const std::size_t memory : kMemories) {
      ReadRequest bounded = request;
      bounded.memory_bytes_max = memory;
      ReadCounters counters;
      EXPECT_TRUE(Merge(slab, bounded, order, 0, &counters) == expected) << memory;
      EXPECT_EQ(counters.rows_matched, expected.size());
      EXPECT_EQ(counters.pages_read, slab.CountPages() + slab.CountOf(RecordKind::kFreshEntry));
      rows_spilled.push_back(counters.rows_spilled);
    }
    EXPECT_GT(rows_spilled[1], 0U);
    EXPECT_EQ(rows_spilled[2], 0U);
  }
}

TEST(PageMerge, BlocksThatFollowEachOtherAreNotSpilledBecauseOthersOverlap) {
  constexpr int kTimes = 2'000;
  constexpr int kWideRows = 50;  // rows of each of three wide blocks
  constexpr int kRows = 20;      // rows of each of the other blocks
  ColumnarSlab slab;
  const auto write = [&](int first, int step, int rows, std::size_t bytes) {
    Rows block;
    for (int i = 0; i < rows; ++i) {
      const std::string topic = "t/" + std::to_string(i % 4);
      block.push_back({1, topic, first + i * step, 0, 0, std::string(bytes, 'x')});
    }
    slab.Write(std::move(block));
  };
  for (int wide = 0; wide < 3; ++wide) write(0, kTimes / kWideRows, kWideRows, 10'000);
  for (int first = 0; first < kTimes; first += kRows) write(first, 2, kRows, 2'000);
  ReadRequest request = Request("#");
  request.memory_bytes_max = 1'000'000;  // less than the values of the wide blocks
  ReadCounters counters;
  EXPECT_TRUE(Merge(slab, request, MergeOrder::kTime, 0, &counters) == slab.Expected(request));
  EXPECT_GT(counters.rows_spilled, 0);
  EXPECT_LE(counters.rows_spilled, kTimes / 4)
      << "one spills nearly all of them if it loads pages of later windows";
}

TEST(PageMerge, WhatCannotBeWantedIsNotRead) {
  ColumnarSlab slab;
  for (int block = 0; block < 4; ++block) {
    Rows rows;
    for (int i = 0; i < 50; ++i) {
      const std::string name = "w" + std::to_string(block) + "/t" + std::to_string(i / 5);
      rows.push_back({static_cast<std::uint32_t>(1 + block), name, 1'000 * block + i, 0, 0,
                      std::to_string(i) + std::string(50, 'x')});
    }
    slab.Write(std::move(rows));
    slab.Seal(SealScope::kFresh);
  }
  ReadCounters counters;
  const auto read = [&](const ReadRequest& request) {
    EXPECT_EQ(Merge(slab, request, MergeOrder::kTime, 0, &counters), slab.Expected(request));
  };
  ReadRequest by_time = Request("#");
  by_time.range = {1'000, 1'010};
  read(by_time);
  EXPECT_EQ(counters.blocks, 4U);
  EXPECT_EQ(counters.blocks_skipped_by_time, 3U);
  EXPECT_GT(counters.pages_skipped_by_time, 0U);
  ReadRequest by_stream = Request("#");
  by_stream.streams = std::vector<StreamId>{StreamId{2}};
  read(by_stream);
  EXPECT_EQ(counters.blocks_skipped_by_stream, 3U);
  read(Request("w2/t3"));
  EXPECT_EQ(counters.blocks_skipped_by_word, 3U);
  EXPECT_GT(counters.pages_skipped_by_topic, 0U);
  EXPECT_LT(counters.pages_read, counters.pages);
}

TEST(PageMerge, MessagesAreDeletedBeforeDuringAndAfterSealing) {
  std::mt19937_64 random(4);
  for (const char* filter : {"a/b/1", "a/#", "#", "none"}) {
    for (int moment = 0; moment < 3; ++moment) {
      ColumnarSlab slab;
      for (int commit = 0; commit < 10; ++commit) slab.Write(RandomCommit(20 * commit, &random));
      ReadRequest request = Request(filter);
      request.range.end = 100;
      if (moment == 0) slab.Remove(request);
      EXPECT_TRUE(slab.Seal(SealScope::kFresh, [&] {
        if (moment == 1) slab.Remove(request);
        slab.Write(RandomCommit(50, &random));  // commits go on meanwhile
      }));
      if (moment == 2) slab.Remove(request);
      const ReadRequest all = Request("#");
      EXPECT_EQ(Merge(slab, all, MergeOrder::kTime), slab.Expected(all)) << filter << moment;
      slab.SealAll(SealScope::kClosed);
      slab.Reopen();
      EXPECT_EQ(Merge(slab, all, MergeOrder::kTime), slab.Expected(all)) << filter << moment;
    }
  }
}

TEST(PageMerge, ADeleteInStepsRemovesAllInTheEnd) {
  std::mt19937_64 random(5);
  ColumnarSlab slab;
  Fill(&slab, 20, &random);
  const ReadRequest request = Request("a/#");
  const std::size_t wanted = slab.Expected(request).size();
  ASSERT_GT(wanted, 20U);
  std::size_t removed = 0;
  while (true) {
    std::size_t step = 0;
    const bool complete = slab.RemoveSome(request, 7, &step);
    removed += step;
    if (complete) break;
    ASSERT_EQ(step, 7U);
    if (removed % 3 == 0) slab.Seal(SealScope::kFresh);
  }
  EXPECT_EQ(removed, wanted);
  EXPECT_EQ(slab.Forget(request), wanted);
  EXPECT_EQ(Merge(slab, Request("#"), MergeOrder::kTime), slab.Expected(Request("#")));
}

TEST(PageMerge, AReadKeepsItsMoment) {
  std::mt19937_64 random(6);
  ColumnarSlab slab;
  Fill(&slab, 30, &random);
  const ReadRequest all = Request("#");
  const Rows expected = slab.Expected(all);
  rocksdb::ManagedSnapshot snapshot(&slab.db());
  PageMerge merge(slab.Source(snapshot.snapshot()), all, MergeOrder::kTime, std::nullopt);
  Rows rows;
  while (merge.Prepare(kNoLimit).value() == PageMerge::State::kReady) {
    rows.push_back(RowOf(merge.page(merge.Ready().front()), merge.Ready().front().row));
    merge.Consume(1);
    if (rows.size() == 10) {
      slab.SealAll(SealScope::kClosed);
      slab.Remove(Request("a/#"));
      slab.SealAll(SealScope::kClosed);
    }
  }
  EXPECT_EQ(rows, expected);
}

TEST(PageMerge, DamageIsCorruptionThatNamesItsBlock) {
  const std::vector<std::pair<RecordKind, bool>> records{
      {RecordKind::kFreshEntry, false}, {RecordKind::kFreshPage, false},
      {RecordKind::kSealedEntry, true}, {RecordKind::kDirectory, true},
      {RecordKind::kWordFilter, true},  {RecordKind::kDeletedRows, true}};
  for (const auto& [kind, sealed] : records) {
    ColumnarSlab slab;
    slab.Write({{1, "a/b", 5, 0, 0, "v"}, {1, "a/c", 5, 0, 0, "w"}});
    if (sealed) slab.Seal(SealScope::kFresh);
    const BlockId block = sealed ? slab.Sealed().at(0).id : BlockId{1};
    slab.Remove(Request("a/c"));
    const std::string key =
        kind == RecordKind::kDeletedRows ? DeletedRowsKey(block, 0) : RecordKey(kind, block);
    std::string value;
    ASSERT_TRUE(slab.db().Get({}, slab.families().main, key, &value).ok());
    value[value.size() / 2] = static_cast<char>(value[value.size() / 2] ^ 1);
    ASSERT_TRUE(slab.db().Put({}, slab.families().main, key, value).ok());
    PageMerge merge(slab.Source(), Request("a/#"), MergeOrder::kTime, std::nullopt);
    const Status status = merge.Prepare(kNoLimit).status();
    EXPECT_EQ(status.code(), Code::kCorruption) << static_cast<int>(kind);
    EXPECT_NE(status.message().find("block " + std::to_string(block.value())), std::string::npos);
  }
}

TEST(PageMerge, ADirectoryThatDoesNotFitItsBlockIsCorruption) {
  ColumnarSlab slab;
  Rows rows;
  for (int i = 0; i < 100; ++i) rows.push_back({1, "t", i, 0, 0, std::string(20, 'v')});
  slab.Write(std::move(rows));
  slab.Seal(SealScope::kFresh);
  const BlockId block = slab.Sealed().at(0).id;
  Directory directory = slab.DirectoryOf(block);
  ASSERT_GT(directory.size(), 2U);
  directory.pop_back();
  ASSERT_TRUE(slab.db()
                  .Put({}, slab.families().main, RecordKey(RecordKind::kDirectory, block),
                       Encode(directory))
                  .ok());
  PageMerge merge(slab.Source(), Request("#"), MergeOrder::kTime, std::nullopt);
  EXPECT_EQ(merge.Prepare(kNoLimit).status().code(), Code::kCorruption);
}

TEST(PageMerge, AMissingPageIsCorruption) {
  ColumnarSlab slab;
  slab.Write({{1, "a", 5, 0, 0, "v"}});
  slab.Seal(SealScope::kFresh);
  ASSERT_TRUE(slab.db().Delete({}, slab.families().sealed, *slab.PageKeys().begin()).ok());
  PageMerge merge(slab.Source(), Request("#"), MergeOrder::kTime, std::nullopt);
  EXPECT_EQ(merge.Prepare(kNoLimit).status().code(), Code::kCorruption);
}

// A slab with so many bytes in its pages that several processors load them.
class LargePages : public ::testing::Test {
 protected:
  LargePages() {
    slab_.limits = {std::size_t{16} << 20, 100, std::size_t{16} << 20, kPageBytes};
    std::mt19937_64 random(7);
    for (int commit = 0; commit < 5; ++commit) {
      Rows rows;
      for (std::uint32_t i = 0; i < 400; ++i) {
        rows.push_back({1, "t/" + std::to_string(i % 40),
                        static_cast<std::int64_t>(random() % 1'000), 0, 0,
                        std::to_string(random()) + std::string(3'000, 'v')});
      }
      slab_.Write(std::move(rows));
    }
  }

  static constexpr std::size_t kPageBytes = std::size_t{64} << 10;
  ColumnarSlab slab_;
};

TEST_F(LargePages, AreReadAsOthers) {
  const ReadRequest request = Request("#");
  const ReadLimits limits{100, kNoLimit, kNoLimit};
  EXPECT_EQ(ReadAll(slab_, request, limits), AsRead(slab_.Expected(request)));
  slab_.Seal(SealScope::kFresh);
  ASSERT_GE(slab_.PageKeys().size(), 16U);
  slab_.Remove(Request("t/3"));
  EXPECT_EQ(ReadAll(slab_, request, limits), AsRead(slab_.Expected(request)));
  EXPECT_EQ(Merge(slab_, request, MergeOrder::kSerial), InCommitOrder(slab_.Expected(request)));
}

TEST_F(LargePages, OneThatIsMissingIsCorruption) {
  slab_.Seal(SealScope::kFresh);
  const std::set<std::string> keys = slab_.PageKeys();
  ASSERT_GE(keys.size(), 16U);
  ASSERT_TRUE(slab_.db().Delete({}, slab_.families().sealed, *std::next(keys.begin(), 9)).ok());
  PageMerge merge(slab_.Source(), Request("#"), MergeOrder::kTime, std::nullopt);
  const Status status = merge.Prepare(kNoLimit).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("page is missing"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace topicdb::columnar
