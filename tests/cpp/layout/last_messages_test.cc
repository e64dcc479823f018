#include "layout/last_messages.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>

namespace topicdb {
namespace {

using Expected = std::map<std::string, std::pair<MessageRank, std::string>>;

void ExpectSame(const LastMessages& found, const Expected& expected) {
  ASSERT_EQ(found.size(), expected.size());
  auto next = expected.begin();
  for (const LastMessages::Number number : found.ByTopic()) {
    const LastMessages::Entry& entry = found.entry(number);
    EXPECT_EQ(entry.topic, next->first);
    EXPECT_EQ(entry.rank, next->second.first);
    EXPECT_EQ(entry.value, next->second.second);
    EXPECT_EQ(found.Find(next->first), number);
    ++next;
  }
}

TEST(LastMessages, NothingIsFoundBeforeAnythingIsOffered) {
  const LastMessages found;
  EXPECT_EQ(found.size(), 0U);
  EXPECT_TRUE(found.ByTopic().empty());
  EXPECT_FALSE(found.Find("a").has_value());
}

TEST(LastMessages, TimeThenCommitThenPlaceDecide) {
  LastMessages found;
  const auto number = found.Offer("t", {5, Serial{5}, 5}, "first");
  for (const MessageRank& older :
       {MessageRank{4, Serial{9}, 9}, {5, Serial{4}, 9}, {5, Serial{5}, 4}, {5, Serial{5}, 5}}) {
    EXPECT_EQ(found.Offer("t", older, "older"), number);
    EXPECT_EQ(found.entry(number).value, "first");
  }
  for (const MessageRank& newer :
       {MessageRank{5, Serial{5}, 6}, {5, Serial{6}, 0}, {6, kNoSerial, 0}}) {
    found.Offer(number, newer, "newer");
    EXPECT_EQ(found.entry(number).rank, newer);
  }
  EXPECT_EQ(found.entry(number).value, "newer");
}

TEST(LastMessages, OfEqualTimesThatOfTheGreatestShardIsTheNewest) {
  for (const bool ascending : {true, false}) {
    LastMessages found;
    for (int i = 0; i < 3; ++i) {
      const auto shard = static_cast<std::uint32_t>(ascending ? i : 2 - i);
      found.EnterShard(shard);
      // The commits of the lower shards have the greater serials.
      found.Offer("t", {5, Serial{10 - shard}, 0}, std::to_string(shard));
      found.Offer("t", {5, Serial{9 - shard}, 1}, "an earlier commit of the shard");
      found.Offer("u", {7 - shard, Serial{1}, 0}, std::to_string(shard));
    }
    EXPECT_EQ(found.entry(found.Find("t").value()).value, "2");
    EXPECT_EQ(found.entry(found.Find("u").value()).value, "0") << "the time goes first";
  }
}

TEST(LastMessages, ABoundSaysWhatAnotherShardCanHaveThatIsNewer) {
  LastMessages found;
  found.EnterShard(1);
  const auto number = found.Offer("t", {5, Serial{8}, 3}, "value");
  EXPECT_EQ(found.BoundOf(number), LastMessages::Bound(5, Serial{8}));
  found.EnterShard(0);
  EXPECT_EQ(found.BoundOf(number), LastMessages::Bound(5, kLastSerial));
  found.EnterShard(2);
  EXPECT_EQ(found.BoundOf(number), LastMessages::Bound(5, kNoSerial));
}

TEST(LastMessages, KeepsValuesOfAllSizesWhateverIsOfferedAfterThem) {
  std::mt19937_64 random(1);
  LastMessages found;
  Expected expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string topic = "site/" + std::to_string(random() % 3'000);
    const MessageRank rank{static_cast<std::int64_t>(random() % 50), Serial{1 + random() % 3}, 0};
    const std::size_t size = random() % 100 == 0 ? random() % 100'000 : random() % 40;
    const std::string value(size, static_cast<char>('a' + random() % 26));
    found.Offer(topic, rank, value);
    auto& known = expected[topic];
    if (known.first == MessageRank{} || rank > known.first) known = {rank, value};
  }
  ExpectSame(found, expected);
}

TEST(LastMessages, OrderIsThatOfBytes) {
  LastMessages found;
  Expected expected;
  for (const std::string topic :
       {"a/b", "a", "a/", "a/\xc3\xa9", "a/12345678", "a/1234567", "a/123456789", "a/12345678/x"}) {
    constexpr MessageRank kRank{1, Serial{1}, 1};
    found.Offer(topic, kRank, topic);
    expected[topic] = {kRank, topic};
  }
  ExpectSame(found, expected);
}

}  // namespace
}  // namespace topicdb
