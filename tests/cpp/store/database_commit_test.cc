#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

constexpr std::uint32_t kShards = 4;

using Each = std::vector<std::optional<std::string_view>>;
using Strings = std::vector<std::string>;

std::unique_ptr<Database> Open(const std::string& path,
                               std::optional<std::vector<std::uint32_t>> only_shards = {},
                               LayoutKind layout = LayoutKind::kColumnar) {
  OpenOptions options;
  options.schema.shards = kShards;
  options.schema.shard_by = ShardBy::kKey;
  options.schema.layout = layout;
  options.only_shards = std::move(only_shards);
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

MessageKeys OfEach(const Each& each) {
  MessageKeys keys;
  keys.each = MessageKeys::Each(each);
  return keys;
}

MessageKeys All(std::string_view key) {
  MessageKeys keys;
  keys.all = key;
  return keys;
}

// Returns the values of the messages that match, by shard.
std::map<std::uint32_t, Strings> ByShard(const Database& database, const std::string& filter) {
  std::map<std::uint32_t, Strings> found;
  const Filter parsed = Filter::Parse(filter).value();
  const std::vector<Stream> streams = database.Streams(parsed, {}).value();
  for (const Stream& stream : streams) {
    ScanOptions options;
    options.streams = {{stream}};
    const auto scan = database.NewScan(parsed, options).value();
    while (const auto batch = scan->Next({100, 1 << 20}).value()) {
      for (std::size_t row = 0; row < batch->size(); ++row) {
        found[stream.slab.shard].emplace_back(batch->value(row));
      }
    }
  }
  return found;
}

// Returns a key that belongs to the shard.
std::string KeyIn(std::uint32_t shard) {
  for (int i = 0;; ++i) {
    std::string key = "client+" + std::to_string(i);  // no topic may have a '+'
    if (ShardOfKey(key, kShards) == shard) return key;
  }
}

TEST(DatabaseCommit, KeysDecideTheShardsOfAnAppend) {
  const TestDirectory directory;
  const auto database = Open(directory / "db");
  const std::string first = KeyIn(0);
  const std::string third = KeyIn(2);
  const std::vector<MessageView> messages{
      {"t", 1, "a"}, {"t", 2, "b"}, {"t", 3, "c"}, {"t", 4, "d"}};
  const Each each{first, third, std::nullopt, first};
  ASSERT_TRUE(database->Append(messages, {}, {}, OfEach(each)).ok());
  std::map<std::uint32_t, Strings> expected{{0, {"a", "d"}}, {2, {"b"}}};
  Strings& of_topic = expected[ShardOfTopic("t", kShards)];
  of_topic.emplace_back("c");
  std::sort(of_topic.begin(), of_topic.end());
  EXPECT_EQ(ByShard(*database, "t"), expected);
  const auto receipt = database->Append(messages, {}, {}, All(KeyIn(3)));
  ASSERT_TRUE(receipt.ok());
  ASSERT_EQ(receipt->serials.size(), 1U);
  EXPECT_EQ(receipt->serials.front().first, 3U);
}

TEST(DatabaseCommit, AnAsynchronousAppendNeedsItsKeysOnlyDuringTheCall) {
  const TestDirectory directory;
  const auto database = Open(directory / "db");
  const auto messages =
      std::make_shared<const std::vector<MessageView>>(std::vector<MessageView>{{"t", 1, "a"}});
  std::mutex mutex;
  std::condition_variable is_done;
  std::optional<Result<Receipt>> outcome;
  {
    std::string key = KeyIn(1);
    ASSERT_TRUE(database
                    ->AppendAsync(
                        *messages, messages, {},
                        [&](Result<Receipt> receipt) {
                          const std::lock_guard lock(mutex);
                          outcome = std::move(receipt);
                          is_done.notify_all();
                        },
                        {}, All(key))
                    .ok());
    key.assign(key.size(), 'x');
  }
  std::unique_lock lock(mutex);
  is_done.wait(lock, [&] { return outcome.has_value(); });
  ASSERT_TRUE(outcome->ok());
  EXPECT_EQ((*outcome)->serials.front().first, 1U);
}

TEST(DatabaseCommit, BadKeysChangeNothing) {
  const TestDirectory directory;
  const auto database = Open(directory / "db");
  const std::vector<MessageView> messages{{"t", 1, "a"}, {"t", 2, "b"}};
  const Each empty_key{"k", ""};
  const auto empty = database->Append(messages, {}, {}, OfEach(empty_key));
  EXPECT_EQ(empty.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(empty.status().message().rfind("row 1: key", 0), 0U) << empty.status().message();
  const Each too_few{"k"};
  EXPECT_EQ(database->Append(messages, {}, {}, OfEach(too_few)).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(database->Append(messages, {}, {}, All("")).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(ByShard(*database, "#").empty());
  OpenOptions options;
  options.schema.shards = kShards;
  const auto by_topic = Database::Open(directory / "topics", options).value();
  const auto refused = by_topic->Append(messages, {}, {}, All("k"));
  EXPECT_EQ(refused.status().code(), Code::kSchema);
  EXPECT_NE(refused.status().message().find("topics"), std::string::npos);
  EXPECT_TRUE(ByShard(*by_topic, "#").empty());
}

TEST(DatabaseCommit, AShardThatIsNotOpenIsNamedWithTopicAndKey) {
  const TestDirectory directory;
  Open(directory / "db")->Close().IgnoreError();
  const auto some = Open(directory / "db", std::vector<std::uint32_t>{0, 1});
  const std::string first = KeyIn(0);
  const std::string other = KeyIn(3);
  const Each each{first, other};
  const std::vector<MessageView> messages{{"here", 1, "a"}, {"there", 2, "b"}};
  const Status status = some->Append(messages, {}, {}, OfEach(each)).status();
  EXPECT_EQ(status.code(), Code::kReadOnly);
  EXPECT_EQ(status.message().rfind("topic 'there' with the key '" + other + "'", 0), 0U)
      << status.message();
  EXPECT_TRUE(ByShard(*some, "#").empty());
}

TEST(DatabaseCommit, AnAppendIsRepeatedOnlyWithTheSameKeys) {
  const TestDirectory directory;
  const auto database = Open(directory / "db");
  const std::vector<MessageView> messages{{"t", 1, "a"}, {"t", 2, "b"}};
  const std::string first = KeyIn(0);
  const std::string second = KeyIn(1);
  const Each each{first, second};
  const auto stored = database->Append(messages, {}, "id", OfEach(each));
  ASSERT_TRUE(stored.ok());
  const auto again = database->Append(messages, {}, "id", OfEach(each));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->serials, stored->serials);
  const Each swapped{second, first};
  for (const MessageKeys& other : {MessageKeys(), All(first), OfEach(swapped)}) {
    EXPECT_EQ(database->Append(messages, {}, "id", other).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(ByShard(*database, "#"), (std::map<std::uint32_t, Strings>{{0, {"a"}}, {1, {"b"}}}));
}

// The same topic and timestamp is one message in each shard, and a delete reaches all of them.
TEST(DatabaseCommit, ATopicIsOverwrittenInItsShardAndDeletedInAll) {
  const TestDirectory directory;
  const auto database = Open(directory / "db", {}, LayoutKind::kSkipstream);
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    const std::string key = KeyIn(shard);
    const std::string value = std::to_string(shard);
    const std::vector<MessageView> old{{"t", 7, "old"}};
    ASSERT_TRUE(database->Append(old, {}, {}, All(key)).ok());
    const std::vector<MessageView> message{{"t", 7, value}};
    ASSERT_TRUE(database->Append(message, {}, {}, All(key)).ok());
  }
  EXPECT_EQ(ByShard(*database, "t"),
            (std::map<std::uint32_t, Strings>{{0, {"0"}}, {1, {"1"}}, {2, {"2"}}, {3, {"3"}}}));
  const auto receipt = database->Delete(Filter::Parse("t").value(), {});
  ASSERT_TRUE(receipt.ok());
  EXPECT_EQ(receipt->count, kShards);
  EXPECT_TRUE(ByShard(*database, "t").empty());
}

TEST(DatabaseCommit, OfEqualTimesTheLastIsThatOfTheGreatestShard) {
  for (const LayoutKind layout : {LayoutKind::kColumnar, LayoutKind::kSkipstream}) {
    const TestDirectory directory;
    const auto database = Open(directory / "db", {}, layout);
    const auto last = [&] {
      const auto scan = database->Last({Filter::Parse("t").value()}, {}).value();
      return std::string(scan->Next({10, 1 << 20}).value()->value(0));
    };
    const std::vector<MessageView> early{{"t", 5, "1"}};
    const std::string lower = KeyIn(1);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(database->Append(early, {}, {}, All(lower)).ok());
    const std::vector<MessageView> late{{"t", 5, "3"}};
    ASSERT_TRUE(database->Append(late, {}, {}, All(KeyIn(3))).ok());
    EXPECT_EQ(last(), "3");
    // What the other shard has besides does not matter.
    const std::vector<MessageView> other{{"u", 9, "x"}};
    ASSERT_TRUE(database->Append(other, {}, {}, All(lower)).ok());
    EXPECT_EQ(last(), "3");
    ASSERT_TRUE(database->Flush().ok());
    EXPECT_EQ(last(), "3");
  }
}

}  // namespace
}  // namespace topicdb
