#include "topicdb/tail.h"

#include <gtest/gtest.h>

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
