#include "topicdb/tail.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// A read asks only now and then whether to stop. So there are many messages that do not match.
TEST(Tail, WhatAnInterruptedReadHadFoundComesAgain) {
  const TestDirectory directory;
  const auto database = Database::Open(directory / "db", {}).value();
  std::vector<std::string> topics;
  for (int i = 0; i < 1'000; ++i) topics.push_back("other/" + std::to_string(i));
  const auto append = [&](const std::string& topic) {
    const std::vector<MessageView> messages{{topic, 1, "value"}};
    ASSERT_TRUE(database->Append(messages).ok());
  };
  append("wanted/first");
  for (int round = 0; round < 250; ++round) {
    std::vector<MessageView> messages;
    for (const std::string& topic : topics) messages.push_back({topic, round, "value"});
    ASSERT_TRUE(database->Append(messages).ok());
  }
  append("wanted/last");

  // With the plus, the filters match the structure "other/+", so the tail looks at its messages.
  const std::vector<Filter> filters{Filter::Parse("+/first").value(),
                                    Filter::Parse("+/last").value()};
  int interrupted = 0;
  for (int at = 1; at <= 8; ++at) {
    const auto tail = database->NewTail(filters, {}).value();
    int looks = 0;
    std::vector<std::string> found;
    while (true) {
      const auto batch = tail->Next({1'000, 1 << 20}, 0ms, [&] { return ++looks == at; });
      if (!batch.ok()) {
        ASSERT_EQ(batch.status().code(), Code::kInterrupted);
        ++interrupted;
        continue;
      }
      if (*batch == nullptr) break;
      for (std::size_t row = 0; row < (*batch)->size(); ++row) {
        found.emplace_back((*batch)->topic(row));
      }
    }
    EXPECT_EQ(found, (std::vector<std::string>{"wanted/first", "wanted/last"})) << at;
  }
  EXPECT_GT(interrupted, 2);
}

std::size_t CountOf(Tail& tail) {
  const auto batch = tail.Next({100, 1 << 20}, 0ms, nullptr).value();
  return batch == nullptr ? 0 : batch->size();
}

// Close may come between the look for messages and the look whether the tail is at its end. A
// commit that does not match makes the tail look just then.
TEST(Tail, ACloseIsNotTakenForItsEnd) {
  const TestDirectory directory;
  const auto database = Database::Open(directory / "db", {}).value();
  const std::vector<Filter> filters{Filter::Parse("wanted/#").value()};
  const std::vector<MessageView> other{{"other", 1, "value"}};
  for (int round = 0; round < 2'000; ++round) {
    const auto tail = database->NewTail(filters, {}).value();
    std::atomic<bool> waits = false;
    std::thread waiting([&] {
      const auto batch = tail->Next({1'000, 1 << 20}, {}, [&] {
        waits = true;
        return false;
      });
      EXPECT_EQ(batch.status().code(), Code::kClosed) << round;
    });
    while (!waits) std::this_thread::yield();
    EXPECT_TRUE(database->Append(other).ok());
    tail->Close();
    waiting.join();
  }
}

TEST(Tail, GoesOnWithoutWhatWasRemovedMeanwhile) {
  const TestDirectory directory;
  const auto database = Database::Open(directory / "db", {}).value();
  const auto append = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::vector<MessageView> messages(10, {"a", kAssignTimestamp, "value"});
      ASSERT_TRUE(database->Append(messages).ok());
    }
  };
  append(100);
  const auto tail = database->NewTail({Filter::Everything()}, {}).value();
  EXPECT_EQ(CountOf(*tail), 100U);
  ASSERT_TRUE(database->Delete(Filter::Everything(), {}).ok());
  append(15);
  EXPECT_EQ(CountOf(*tail), 100U);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  append(1);
  EXPECT_EQ(CountOf(*tail), 10U);
  EXPECT_EQ(CountOf(*tail), 0U);
}

// A database of the classes a/# and #.
std::unique_ptr<Database> OpenTwoClasses(const std::string& path) {
  OpenOptions options;
  options.schema.retention = std::vector{RetentionClass{"a/#", {}, 0, {}, 0}};
  options.maintenance_interval = std::chrono::microseconds(0);
  return Database::Open(path, options).value();
}

std::vector<Filter> Of(const std::string& filter) { return {Filter::Parse(filter).value()}; }

TEST(Tail, StopsBeforeAGenerationWithoutALogThatMayHaveItsMessages) {
  const TestDirectory directory;
  const auto database = OpenTwoClasses(directory / "db");
  const auto append = [&](const std::string& topic) {
    const std::vector<MessageView> messages{{topic, 1, "value"}};
    ASSERT_TRUE(database->Append(messages).ok());
  };
  append("a/1");
  append("b");
  const auto tail = database->NewTail(Of("a/#"), {}).value();
  const auto other = database->NewTail(Of("b"), {}).value();
  ASSERT_TRUE(database->upkeep().Rotate("a/#", false, LayoutKind::kSkipstream).ok());
  EXPECT_EQ(CountOf(*tail), 1U);
  EXPECT_EQ(CountOf(*tail), 0U) << "nothing was stored in that generation yet";
  append("a/1");
  append("b");
  for (int i = 0; i < 2; ++i) {
    const Status status = tail->Next({100, 1 << 20}, 0ms, nullptr).status();
    EXPECT_EQ(status.code(), Code::kSchema);
    EXPECT_NE(status.message().find("class 'a/#', generation 2 of shard 0"), std::string::npos)
        << status.message();
  }
  EXPECT_EQ(tail->serials().at(0), Serial{3}) << "everything before it was given";
  EXPECT_EQ(CountOf(*other), 2U);

  ASSERT_TRUE(database->upkeep().Rotate("a/#", false, LayoutKind::kColumnar).ok());
  append("a/2");
  EXPECT_FALSE(tail->Next({100, 1 << 20}, 0ms, nullptr).ok()) << "it is still there";
  TailOptions behind;
  behind.after = {{0, Serial{6}}};
  const auto later = database->NewTail(Of("a/#"), behind).value();
  EXPECT_EQ(CountOf(*later), 1U);
  ASSERT_TRUE(database->upkeep().DropSlab(0, "a/#", Generation{2}).ok());
  EXPECT_EQ(CountOf(*tail), 1U) << "it goes on behind what is gone";
}

TEST(Tail, IsRefusedWhereItCouldNotBegin) {
  const TestDirectory directory;
  const auto database = OpenTwoClasses(directory / "db");
  ASSERT_TRUE(database->upkeep().Rotate("a/#", false, LayoutKind::kSkipstream).ok());
  const std::vector<MessageView> messages{{"a/1", 1, "value"}, {"b", 1, "value"}};
  ASSERT_TRUE(database->Append(messages).ok());
  EXPECT_EQ(database->NewTail(Of("#"), {}).value()->Next({100, 1 << 20}, 0ms).status().code(),
            Code::kSchema)
      << "there was something before it, which was empty";
  TailOptions behind;
  behind.after = {{0, Serial{1}}};
  EXPECT_EQ(database->NewTail(Of("#"), behind).status().code(), Code::kSchema);
  EXPECT_EQ(database->NewTail(Of("a/2"), behind).status().code(), Code::kSchema)
      << "such a message would go there";
  EXPECT_EQ(CountOf(*database->NewTail(Of("b"), behind).value()), 1U);
  behind.until = {{0, Serial{1}}};
  EXPECT_TRUE(database->NewTail(Of("#"), behind).ok()) << "it wants nothing of it";
}

TEST(Tail, OfSomeShardsEndsThoughItWasToldOfOthers) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.shards = 2;
  ASSERT_TRUE(Database::Open(directory / "db", options).ok());
  options.only_shards = {{1}};
  const auto database = Database::Open(directory / "db", options).value();
  TailOptions wanted;
  wanted.after = {{0, kNoSerial}, {1, kNoSerial}};
  wanted.until = {{0, Serial{9}}, {1, kNoSerial}};
  const auto tail = database->NewTail({Filter::Everything()}, wanted).value();
  int looks = 0;
  const auto batch = tail->Next({100, 1 << 20}, std::nullopt, [&] { return ++looks == 3; });
  ASSERT_TRUE(batch.ok()) << "it waits for a shard that is not open here";
  EXPECT_EQ(*batch, nullptr);
  EXPECT_EQ(tail->serials(), (std::map<std::uint32_t, Serial>{{0, kNoSerial}, {1, kNoSerial}}));
}

}  // namespace
}  // namespace topicdb
