#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/job.h"

namespace topicdb {
namespace {

constexpr std::uint32_t kShards = 3;

using Each = std::vector<std::optional<std::string_view>>;

void Create(const std::string& path, ShardBy shard_by) {
  OpenOptions options;
  options.schema.shards = kShards;
  options.schema.shard_by = shard_by;
  ASSERT_TRUE(Database::Open(path, options).ok());
}

MessageKeys OfEach(const Each& each) {
  MessageKeys keys;
  keys.each = MessageKeys::Each(each);
  return keys;
}

// Returns the values of all messages by shard.
std::map<std::uint32_t, std::multiset<std::string>> ByShard(const std::string& path) {
  std::map<std::uint32_t, std::multiset<std::string>> found;
  const auto database = Database::Open(path, {}).value();
  const Filter all = Filter::Parse("#").value();
  const std::vector<Stream> streams = database->Streams(all, {}).value();
  for (const Stream& stream : streams) {
    ScanOptions options;
    options.streams = {{stream}};
    const auto scan = database->NewScan(all, options).value();
    while (const auto batch = scan->Next({100, 1 << 20}).value()) {
      for (std::size_t row = 0; row < batch->size(); ++row) {
        found[stream.slab.shard].emplace(batch->value(row));
      }
    }
  }
  return found;
}

// The writer holds so little that a topic comes in several blocks of several shards.
TEST(StagedWriter, KeysDecideTheShardsOfAJob) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  Create(path, ShardBy::kKey);
  StageOptions options;
  options.memory_bytes_max = 2'000;
  const auto writer = StagedWriter::Open(path, "j", options).value();
  std::map<std::uint32_t, std::multiset<std::string>> expected;
  for (int i = 0; i < 300; ++i) {
    const std::string topic = "t/" + std::to_string(i % 4);
    const std::string value = std::to_string(i);
    const std::string text = "client " + std::to_string(i % 7);
    const std::optional<std::string_view> key =
        i % 7 == 0 ? std::nullopt : std::optional<std::string_view>(text);
    const std::vector<MessageView> message{{topic, i % 5 == 0 ? kAssignTimestamp : i, value}};
    const Each each{key};
    ASSERT_TRUE(writer->Append(message, OfEach(each)).ok());
    expected[ShardOfKey(key.value_or(topic), kShards)].insert(value);
  }
  const StagedTask task = writer->Finish().value();
  ASSERT_TRUE(CommitJob(path, {"j", {task.file}, {}, 0}).ok());
  ASSERT_EQ(expected.size(), kShards);
  EXPECT_EQ(ByShard(path), expected);
}

TEST(StagedWriter, ABadKeyStagesNothingOrIsLeftOut) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  Create(path, ShardBy::kKey);
  const std::vector<MessageView> messages{{"t", 1, "a"}, {"t", 2, "b"}};
  const Each each{"k", ""};
  const auto strict = StagedWriter::Open(path, "j", {}).value();
  const Status refused = strict->Append(messages, OfEach(each));
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message().rfind("row 1: key", 0), 0U) << refused.message();
  EXPECT_EQ(strict->Finish().value().messages, 0U);
  StageOptions drops;
  drops.drop_malformed = true;
  const auto lenient = StagedWriter::Open(path, "k", drops).value();
  ASSERT_TRUE(lenient->Append(messages, OfEach(each)).ok());
  const Each too_few{"k"};
  EXPECT_EQ(lenient->Append(messages, OfEach(too_few)).code(), Code::kInvalidArgument);
  const StagedTask task = lenient->Finish().value();
  EXPECT_EQ(task.messages, 1U);
  EXPECT_EQ(task.malformed, 1U);
}

TEST(StagedWriter, ADatabaseThatShardsByTopicTakesNoKeys) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  Create(path, ShardBy::kTopic);
  const auto writer = StagedWriter::Open(path, "j", {}).value();
  const std::vector<MessageView> messages{{"t", 1, "a"}};
  MessageKeys keys;
  keys.all = "k";
  const Status status = writer->Append(messages, keys);
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_NE(status.message().find(path), std::string::npos);
}

}  // namespace
}  // namespace topicdb
