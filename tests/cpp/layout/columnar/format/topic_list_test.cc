#include "layout/columnar/format/topic_list.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"

namespace topicdb::columnar {
namespace {

constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();
constexpr Extent kExtent{1'000, 257'000, Serial{5}, Serial{9}};

using Topic = std::tuple<std::uint32_t, std::string, std::uint32_t>;  // stream, text, page

std::string Record(const std::vector<Topic>& topics, const std::vector<std::int64_t>& times,
                   std::uint32_t pages, const Extent& extent = kExtent) {
  TopicListBuilder builder;
  for (std::size_t i = 0; i < topics.size(); ++i) {
    const auto& [stream, text, page] = topics[i];
    builder.Add(StreamId{stream}, text, page,
                times.empty() ? std::nullopt : std::optional(times[i]));
  }
  return builder.Build(1'000, pages, extent).value();
}

const std::vector<Topic> kTopics{
    {1, "a/b", 0}, {1, "a/bcd", 0}, {2, "a/bcd", 2}, {7, std::string(300, '/'), 2}};

std::vector<Topic> TopicsOf(const TopicList& list) {
  std::vector<Topic> topics;
  const std::string texts = Expand(list).value();
  EXPECT_TRUE(
      ForEachTopic(list, texts, [&](StreamId stream, std::string_view topic, std::uint32_t page) {
        topics.emplace_back(stream.value(), topic, page);
        return Status::Ok();
      }).ok());
  return topics;
}

TEST(TopicList, RoundTrips) {
  const std::string record = Record(kTopics, {257'000, 1'000, 256'000, 2'001}, 4);
  TopicList list;
  ASSERT_TRUE(Decode(record, &list));
  EXPECT_EQ(list.rows, 1'000U);
  EXPECT_EQ(list.extent, kExtent);
  EXPECT_EQ(list.topics, 4U);
  EXPECT_EQ(list.page_topics, (std::vector<std::uint32_t>{2, 0, 2, 0}));
  EXPECT_EQ(TopicsOf(list), kTopics);
}

TEST(TopicList, IsTheBytesThatTheFormatDraws) {
  const std::string record = Record({{1, "a", 0}, {3, "ab", 1}}, {257'000, 1'000}, 2);
  std::string texts;
  ASSERT_TRUE(
      PageCompressor(PageCodec::kZstd).Compress(std::string("\1\0\1a\2\1\1b", 8), &texts).ok());
  std::string expected("\1\xe8\7\xe8\7\x80\xd0\x0f\5\4\2\2\1\1\2\x08", 16);
  AppendPrefixed(&expected, texts);
  expected += std::string("\0\xff", 2);
  AppendLittle(&expected, Crc32(expected));
  EXPECT_EQ(record, expected);
}

TEST(TopicList, AgesAreBounds) {
  constexpr Serial kSerial{1};
  for (const Extent& extent :
       {kExtent, Extent{0, 0, kSerial, kSerial}, Extent{0, 255, kSerial, kSerial},
        Extent{0, 256, kSerial, kSerial}, Extent{0, kTimeMax, kSerial, kSerial}}) {
    const std::int64_t span = extent.last_time - extent.first_time;
    std::vector<Topic> topics;
    std::vector<std::int64_t> times;
    for (std::uint32_t i = 0; i <= 100; ++i) {
      topics.emplace_back(1 + i, "t", 0);
      times.push_back(extent.last_time - span / 100 * i);
    }
    times.push_back(extent.first_time);
    topics.emplace_back(200, "t", 0);
    const std::string record = Record(topics, times, 1, extent);
    TopicList list;
    ASSERT_TRUE(Decode(record, &list));
    for (std::uint32_t i = 0; i < times.size(); ++i) {
      EXPECT_GE(list.LastTimeMax(i), times[i]);
      EXPECT_LE(list.LastTimeMax(i) - times[i], span / 256 + 1);
    }
  }
}

TEST(TopicList, WithoutTimesEachTopicMayBeTheNewest) {
  const std::string record = Record(kTopics, {}, 3);
  TopicList list;
  ASSERT_TRUE(Decode(record, &list));
  EXPECT_EQ(list.LastTimeMax(3), kExtent.last_time);
  EXPECT_EQ(TopicsOf(list), kTopics);
}

TEST(TopicList, SameTopicsGiveSameTexts) {
  const std::string one = Record(kTopics, {}, 3);
  const std::string two =
      Record(kTopics, {257'000, 1'000, 256'000, 2'001}, 5, {9, 300'000, Serial{8}, Serial{8}});
  std::vector<Topic> other = kTopics;
  std::get<0>(other[3]) = 8;
  const std::string three = Record(other, {}, 3);
  TopicList a;
  TopicList b;
  TopicList c;
  ASSERT_TRUE(Decode(one, &a) && Decode(two, &b) && Decode(three, &c));
  EXPECT_EQ(a.texts, b.texts);
  EXPECT_NE(a.texts, c.texts);
}

TEST(TopicList, DamageIsNoticed) {
  const std::string record = Record(kTopics, {257'000, 1'000, 256'000, 2'001}, 4);
  TopicList list;
  for (std::size_t i = 0; i < 8 * record.size(); ++i) {
    std::string flipped = record;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(Decode(flipped, &list)) << i;
    EXPECT_FALSE(Decode(std::string_view(record).substr(0, i / 8), &list)) << i;
  }
}

TEST(TopicList, ImpossibleOnesAreRefused) {
  const auto with_checksum = [](std::string body) {
    AppendLittle(&body, Crc32(body));
    return body;
  };
  const std::string record = Record({{1, "a", 0}}, {1'000}, 1);
  const std::string body = record.substr(0, record.size() - 4);
  TopicList list;
  ASSERT_TRUE(Decode(with_checksum(body), &list));
  EXPECT_FALSE(Decode(with_checksum("\2" + body.substr(1)), &list)) << "version";
  EXPECT_FALSE(Decode(with_checksum(body + "x"), &list)) << "two ages for one topic";
  std::string changed = body;
  ASSERT_EQ(changed.substr(10, 3), "\1\1\1");  // how many topics, pages, topics of the page
  for (const std::size_t place : {10, 11, 12, 13}) {
    changed = body;
    changed[place] = '\0';
    EXPECT_FALSE(Decode(with_checksum(changed), &list)) << place;
  }
  changed = body;
  changed[12] = '\2';
  EXPECT_FALSE(Decode(with_checksum(changed), &list)) << "more topics in pages than there are";
}

}  // namespace
}  // namespace topicdb::columnar
