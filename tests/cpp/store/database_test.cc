#include "topicdb/database.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "layout/skipstream/skipstream_reader.h"
#include "test_directory.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Database> OpenOk(const std::string& path, const OpenOptions& options = {}) {
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

Receipt AppendOk(Database& database, const std::vector<MessageView>& messages,
                 Durability durability = Durability::kOs) {
  auto receipt = database.Append(messages, durability);
  EXPECT_TRUE(receipt.ok()) << receipt.status().message();
  return receipt.ok() ? *receipt : Receipt();
}

std::vector<std::string> Values(const Database& database, const std::string& filter,
                                ScanOrder order = ScanOrder::kStream) {
  std::vector<std::string> values;
  auto scan = database.NewScan(Filter::Parse(filter).value(), {{}, order, std::nullopt});
  EXPECT_TRUE(scan.ok());
  while (true) {
    auto batch = scan.value()->Next({2, 1 << 20});
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return values;
    for (std::size_t row = 0; row < (*batch)->size(); ++row) {
      values.emplace_back((*batch)->value(row));
    }
  }
}

using Strings = std::vector<std::string>;

TEST(Database, EqualTimestampsComeInTheOrderOfTheirCommits) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  options.schema.thresholds = {{0}};
  const auto database = OpenOk(directory / "db", options);
  AppendOk(*database, {{"z/1", 5, "1"}, {"a/1", 5, "2"}});
  AppendOk(*database, {{"m/1", 5, "3"}, {"a/0", 5, "4"}, {"q/1", 4, "0"}});
  EXPECT_EQ(Values(*database, "#"), (Strings{"0", "1", "2", "3", "4"}));
  AppendOk(*database, {{"z/1", 5, "5"}});  // overwrites "1" and moves to the end
  EXPECT_EQ(Values(*database, "#"), (Strings{"0", "2", "3", "4", "5"}));
}

TEST(Database, IteratorsGoOnFromAnyMessageOfAGroup) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.thresholds = {{0}};
  const auto database = OpenOk(directory / "db", options);
  std::vector<std::string> topics;
  for (int i = 0; i < 50; ++i) topics.push_back("t" + std::to_string(i * 7 % 50));
  std::vector<MessageView> messages;
  for (const std::string& topic : topics) messages.push_back({topic, 9, topic});
  AppendOk(*database, messages);
  const Filter all = Filter::Parse("#").value();
  Iterator iterator =
      database->NewIterator(database->Streams(all, {}).value().at(0), all, {}).value();
  for (const std::string& topic : topics) {
    const Page page = database->Next(Iterator::Decode(iterator.Encode()).value(), {1}).value();
    ASSERT_EQ(page.batch->size(), 1U);
    EXPECT_EQ(page.batch->topic(0), topic);
    iterator = page.iterator;
  }
  EXPECT_FALSE(database->Next(iterator, {1})->end_of_stream);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  EXPECT_TRUE(database->Next(iterator, {1})->end_of_stream);
}

TEST(Database, StreamsOfEarlierGenerationsCanBeLeftOut) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  for (int generation = 1; generation <= 3; ++generation) {
    AppendOk(*database, {{"a", generation, "x"}});
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  }
  const Filter all = Filter::Parse("#").value();
  for (std::uint32_t first = 0; first <= 4; ++first) {
    const auto streams = database->Streams(all, {}, Generation{first}).value();
    std::vector<Generation> found;
    for (const Stream& stream : streams) found.push_back(stream.slab.generation);
    std::vector<Generation> expected;
    for (std::uint32_t i = std::max(first, 1U); i <= 3; ++i) expected.push_back(Generation{i});
    EXPECT_EQ(found, expected) << first;
  }
}

TEST(Database, SerialsAndTheClockRiseOverReopening) {
  const TestDirectory directory;
  Serial serial;
  std::int64_t clock = 0;
  for (int round = 0; round < 4; ++round) {
    const auto database = OpenOk(directory / "db");
    const Receipt receipt = AppendOk(*database, {{"a", kAssignTimestamp, "x"}},
                                     round % 2 == 0 ? Durability::kNone : Durability::kDisk);
    EXPECT_EQ(receipt.serials.at(0).second, serial.Next());
    serial = receipt.serials.at(0).second;
    const std::int64_t now = database->GetStats()->shards.at(0).assigned_timestamp;
    EXPECT_GT(now, clock);
    clock = now;
  }
  EXPECT_EQ(Values(*OpenOk(directory / "db"), "a").size(), 4U);
}

// A copy of the directory of an open database is what kill -9 leaves.
TEST(Database, AfterACrashAcknowledgedMessagesAreThereAndSerialsAreNotUsedAgain) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendOk(*database, {{"a/1", 1, "os"}});
  AppendOk(*database, {{"new/structure", 1, "none, but it learns"}}, Durability::kNone);
  AppendOk(*database, {{"new/structure", 2, "os"}});
  const Receipt last = AppendOk(*database, {{"a/1", 2, "none"}}, Durability::kNone);
  fs::copy(directory / "db", directory / "crashed", fs::copy_options::recursive);
  const auto after = OpenOk(directory / "crashed");
  EXPECT_EQ(Values(*after, "a/1"), Strings{"os"});
  EXPECT_EQ(Values(*after, "new/#"), (Strings{"none, but it learns", "os"}));
  EXPECT_GT(AppendOk(*after, {{"a/1", 3, "x"}}).serials.at(0).second, last.serials.at(0).second);
  EXPECT_EQ(Values(*database, "a/1"), (Strings{"os", "none"}));
}

TEST(Database, AScanKeepsItsMoment) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendOk(*database, {{"a", 1, "1"}, {"a", 2, "2"}, {"b", 1, "3"}});
  const auto scan = database->NewScan(Filter::Parse("#").value(), {}).value();
  EXPECT_EQ(scan->Next({1}).value()->value(0), "1");
  AppendOk(*database, {{"a", 3, "late"}, {"c", 1, "new"}});
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  EXPECT_EQ(scan->Next({10}).value()->size(), 2U);
  EXPECT_EQ(scan->Next({10}).value(), nullptr);
  EXPECT_TRUE(Values(*database, "#").empty());
}

TEST(Database, ADroppedSlabStaysAwayAndItsGenerationIsNotUsedAgain) {
  const TestDirectory directory;
  {
    const auto database = OpenOk(directory / "db");
    AppendOk(*database, {{"a", 1, "1"}});
    EXPECT_EQ(database->upkeep().DropSlab(0, "#", Generation{1}).code(), Code::kInvalidArgument);
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
    ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
    EXPECT_EQ(database->upkeep().DropSlab(0, "#", Generation{1}).code(), Code::kNotFound);
  }
  const auto database = OpenOk(directory / "db");
  ASSERT_EQ(database->upkeep().Slabs()->size(), 1U);
  EXPECT_EQ(database->upkeep().Slabs()->at(0).id.generation, Generation{2});
}

TEST(Database, SlicesOfADroppedSlabAreNotSummarized) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendOk(*database, {{"a", 1, "x"}, {"b", 9, "y"}});
  const std::vector<Filter> all{Filter::Everything()};
  const std::vector<Slice> slices = database->Slices(all, {}).value();
  const auto groups = database->Summarize(all, slices, SummaryOptions()).value();
  EXPECT_EQ(groups, (std::vector<MessageGroup>{{"", std::nullopt, 2, 1, 9}}));
  SummaryOptions none;
  none.groups_max = 0;
  EXPECT_EQ(database->Summarize(all, slices, none).status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  const Status status = database->Summarize(all, slices, SummaryOptions()).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("it was dropped"), std::string::npos);
}

TEST(Database, ItsSchemaIsReadWithoutItsShards) {
  const TestDirectory directory;
  EXPECT_EQ(Database::ReadSchema(directory / "db").status().code(), Code::kNotFound);
  OpenOptions options;
  options.schema.shards = 3;
  options.schema.layout = LayoutKind::kSkipstream;
  const Schema created = OpenOk(directory / "db", options)->schema();
  fs::remove_all(directory / "db/shards");
  const auto schema = Database::ReadSchema(directory / "db");
  ASSERT_TRUE(schema.ok()) << schema.status().message();
  EXPECT_EQ(*schema, created);
  EXPECT_EQ(Database::ReadSchema("").status().code(), Code::kInvalidArgument);
}

TEST(Database, AMissingFileIsNoticedAtOpen) {
  const TestDirectory directory;
  {
    const auto database = OpenOk(directory / "db");
    AppendOk(*database, {{"a", 1, "1"}});
  }
  int removed = 0;
  for (const auto& entry : fs::directory_iterator(directory / "db/shards/0000")) {
    if (entry.path().extension() == ".sst" && removed == 0) removed += fs::remove(entry) ? 1 : 0;
  }
  ASSERT_EQ(removed, 1);
  for (const bool read_only : {false, true}) {
    OpenOptions options;
    options.read_only = read_only;
    EXPECT_EQ(Database::Open(directory / "db", options).status().code(), Code::kCorruption);
  }
}

TEST(Database, AShardOfAnotherDatabaseIsRefused) {
  const TestDirectory directory;
  OpenOk(directory / "one");
  OpenOk(directory / "two");
  fs::remove_all(directory / "one/shards/0000");
  fs::copy(directory / "two/shards/0000", directory / "one/shards/0000",
           fs::copy_options::recursive);
  EXPECT_EQ(Database::Open(directory / "one", {}).status().code(), Code::kCorruption);
}

TEST(Database, ABadRowWritesNothing) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const std::vector<MessageView> messages{{"a", 1, "x"}, {"a/#", 1, "x"}};
  const Status status = database->Append(messages).status();
  EXPECT_EQ(status.code(), Code::kTopic);
  EXPECT_NE(status.message().find("row 1"), std::string::npos);
  EXPECT_TRUE(Values(*database, "#").empty());
  EXPECT_EQ(database->GetStats()->shards.at(0).serial, kNoSerial);
}

TEST(Database, ThreadsAppendScanAndRotateTogether) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.shards = 2;
  options.schema.thresholds = {{3, 1}};
  const auto database = OpenOk(directory / "db", options);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 200; ++i) {
        const std::string topic = "w" + std::to_string(writer) + "/" + std::to_string(i % 20);
        AppendOk(*database, {{topic, i, "x"}, {topic + "/y", i, "y"}});
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  });
  std::thread reader([&] {
    while (!stop) Values(*database, "+/+", ScanOrder::kTime);
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  reader.join();
  EXPECT_EQ(Values(*database, "#").size(), 800U);
}

// While a reader opens the log and the files one after the other, a flush moves messages from the
// log to a file.
TEST(Database, AReaderThatOpensDuringFlushesMissesNothing) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  constexpr int kFlushesPerOpen = 4;  // with ever more, an open might never end
  std::atomic<std::size_t> acknowledged{0};
  std::atomic<int> flushes_left{0};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      // Flushes come at any moment of an open.
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 40));
      if (flushes_left == 0) continue;
      --flushes_left;
      AppendOk(*database, {{"a", i, "x"}});
      ++acknowledged;
      EXPECT_TRUE(database->Flush().ok());
    }
  });
  OpenOptions options;
  options.read_only = true;
  for (int opened = 0; opened < 40;) {
    const std::size_t expected = acknowledged;
    flushes_left = kFlushesPerOpen;
    const auto reader = Database::Open(directory / "db", options);
    if (!reader.ok()) continue;  // no message is missed: the open has failed
    EXPECT_GE(Values(**reader, "a").size(), expected);
    ++opened;
  }
  stop = true;
  writer.join();
}

// Opening a shard takes a while, and one thread may be overtaken by another that began later.
TEST(Database, AReaderThatManyThreadsRefreshNeverGoesBack) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  OpenOptions options;
  options.read_only = true;
  const auto reader = OpenOk(directory / "db", options);
  const auto append_and_look = [&](std::size_t thread) {
    for (std::int64_t i = 0; i < 100; ++i) {
      const Receipt receipt = AppendOk(*database, {{"a/" + std::to_string(thread), i, "x"}});
      while (!reader->Refresh().ok()) {  // it says so if the writer was too fast
      }
      EXPECT_GE(reader->GetStats()->shards.at(0).serial, receipt.serials.at(0).second);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) threads.emplace_back(append_and_look, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Database, ClosingWaitsForCallsAndEndsScans) {
  const TestDirectory directory;
  auto database = OpenOk(directory / "db");
  AppendOk(*database, {{"a", 1, "1"}, {"a", 2, "2"}});
  const auto scan = database->NewScan(Filter::Parse("#").value(), {}).value();
  std::thread writer([&] {
    for (int i = 0;; ++i) {
      const std::vector<MessageView> messages{{"b", i, "x"}};
      if (const auto receipt = database->Append(messages); !receipt.ok()) {
        EXPECT_EQ(receipt.status().code(), Code::kClosed);
        return;
      }
    }
  });
  ASSERT_TRUE(database->Close().ok());
  writer.join();
  EXPECT_EQ(scan->Next({1}).status().code(), Code::kClosed);
  EXPECT_TRUE(database->Close().ok());
  OpenOk(directory / "db");  // the lock is free though the scan still lives
}

}  // namespace
}  // namespace topicdb
