#include "commit/shard_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace topicdb {
namespace {

using Each = std::vector<std::optional<std::string_view>>;

Schema ByKey(std::uint32_t shards) {
  Schema schema;
  schema.shards = shards;
  schema.shard_by = ShardBy::kKey;
  return schema;
}

MessageKeys All(std::string_view key) {
  MessageKeys keys;
  keys.all = key;
  return keys;
}

MessageKeys OfEach(const Each& each) {
  MessageKeys keys;
  keys.each = MessageKeys::Each(each);
  return keys;
}

TEST(ShardChoice, WithoutKeysTheTopicsDecide) {
  Schema by_topic;
  by_topic.shards = 7;
  for (const Schema& schema : {by_topic, ByKey(7)}) {
    const ShardChoice choice(schema, {});
    EXPECT_EQ(choice.ShardOf(0, "123456789"), 0xcbf43926U % 7);
    EXPECT_EQ(choice.Describe(3, "a"), "topic 'a'");
  }
}

TEST(ShardChoice, OneKeyDecidesForAllMessages) {
  const ShardChoice choice(ByKey(7), All("123456789"));
  for (const std::string_view topic : {"a", "b", "123456789"}) {
    EXPECT_EQ(choice.ShardOf(5, topic), 0xcbf43926U % 7);
  }
  EXPECT_EQ(choice.Describe(5, "a"), "topic 'a' with the key '123456789'");
}

TEST(ShardChoice, EachMessageHasAKeyOfItsOwnOrItsTopic) {
  const Each each{"a/+/#", std::nullopt, std::string_view("\0\xff", 2)};
  const MessageKeys keys = OfEach(each);
  const ShardChoice choice(ByKey(1'000), keys);
  EXPECT_EQ(choice.ShardOf(0, "t"), ShardOfKey("a/+/#", 1'000));
  EXPECT_EQ(choice.ShardOf(1, "t"), ShardOfTopic("t", 1'000));
  EXPECT_EQ(choice.ShardOf(2, "t"), ShardOfKey(std::string_view("\0\xff", 2), 1'000));
  EXPECT_EQ(choice.Describe(1, "t"), "topic 't'");
}

TEST(ShardChoice, ALongKeyIsCutInErrors) {
  const std::string key(100, 'k');
  EXPECT_EQ(ShardChoice(ByKey(2), All(key)).Describe(0, "t"),
            "topic 't' with the key '" + std::string(80, 'k') + "…'");
}

TEST(CheckKeys, KeysThatCannotBeAreRefused) {
  const Each three{"a", std::nullopt, "c"};
  EXPECT_TRUE(CheckKeys({}, 3, Schema(), "/db").ok());
  EXPECT_TRUE(CheckKeys(All("a"), 3, ByKey(1), "/db").ok());
  EXPECT_TRUE(CheckKeys(OfEach(three), 3, ByKey(2), "/db").ok());
  EXPECT_TRUE(CheckKeys(OfEach({}), 0, ByKey(2), "/db").ok());
  for (const MessageKeys& keys : {All("a"), OfEach(three), OfEach({})}) {
    const Status status = CheckKeys(keys, 3, Schema(), "/db");
    EXPECT_EQ(status.code(), Code::kSchema);
    EXPECT_NE(status.message().find("/db"), std::string::npos) << status.message();
  }
  for (const std::size_t messages : {0, 2, 4}) {
    const Status status = CheckKeys(OfEach(three), messages, ByKey(2), "/db");
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    const std::string expected = "each message (" + std::to_string(messages) + ")";
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("a list of 3"), std::string::npos) << status.message();
  }
  EXPECT_EQ(CheckKeys(OfEach({}), 2, ByKey(2), "/db").code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckKeys(All(""), 2, ByKey(2), "/db").code(), Code::kInvalidArgument);
}

TEST(CheckKeys, AnEmptyKeyIsRefused) {
  EXPECT_TRUE(CheckKey(std::nullopt).ok());
  EXPECT_TRUE(CheckKey(" ").ok());
  EXPECT_EQ(CheckKey("").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace topicdb
