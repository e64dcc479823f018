#include "topicdb/stream_watch.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Database> OpenOk(const std::string& path) {
  OpenOptions options;
  options.schema.shards = 2;
  options.schema.thresholds = std::vector<std::uint32_t>{1'000};
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

Status Append(Database& database, const std::string& topic) {
  const std::vector<MessageView> messages{{topic, 1, "value"}};
  return database.Append(messages).status();
}

TEST(StreamWatch, TellsOfEachStreamOnceWhileOthersWriteAndRotate) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto watch = database->WatchStreams(Filter::Parse("t/#").value(), false).value();
  constexpr int kWriters = 2;
  constexpr int kTopics = 60;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < kTopics; ++i) {
        const std::string topic = "t/" + std::to_string(writer) + "/" + std::to_string(i);
        EXPECT_TRUE(Append(*database, topic).ok());
        if (i % 20 != 9) continue;
        EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
      }
    });
  }
  std::set<Stream> found;
  std::size_t told = 0;
  const auto take = [&] {
    const auto streams = watch->Next(20ms);
    EXPECT_TRUE(streams.ok()) << streams.status().message();
    if (!streams.ok()) return false;
    told += streams->size();
    found.insert(streams->begin(), streams->end());
    return !streams->empty();
  };
  for (int i = 0; i < 10; ++i) take();
  for (std::thread& writer : writers) writer.join();
  while (take()) {
  }
  EXPECT_EQ(told, found.size());
  const auto expected = database->Streams(Filter::Parse("t/#").value(), {}).value();
  EXPECT_EQ(found, std::set<Stream>(expected.begin(), expected.end()));
}

TEST(StreamWatch, ClosingEndsACallThatWaits) {
  const TestDirectory directory;
  for (const bool closes_database : {false, true}) {
    const auto database = OpenOk(directory / "db");
    const auto watch = database->WatchStreams(Filter::Parse("#").value(), true).value();
    std::thread waiting([&] { EXPECT_EQ(watch->Next({}).status().code(), Code::kClosed); });
    if (closes_database) {
      EXPECT_TRUE(database->Close().ok());
    } else {
      watch->Close();
    }
    waiting.join();
    EXPECT_EQ(watch->Next(0ms).status().code(), Code::kClosed);
  }
}

TEST(StreamWatch, AnInterruptEndsIt) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto watch = database->WatchStreams(Filter::Parse("#").value(), true).value();
  EXPECT_EQ(watch->Next({}, [] { return true; }).status().code(), Code::kInterrupted);
  EXPECT_TRUE(watch->Next(0ms).value().empty());
}

}  // namespace
}  // namespace topicdb
