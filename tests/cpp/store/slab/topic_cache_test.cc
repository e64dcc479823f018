#include "store/slab/topic_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace topicdb {
namespace {

constexpr RetentionClassId kClass{2};

TopicCache::Topic* Add(TopicCache* cache, const std::string& topic, std::uint32_t stream) {
  return cache->Add(topic, TopicCache::HashOf(topic), kClass, StreamId{stream});
}

TopicCache::Topic* Find(TopicCache* cache, const std::string& topic) {
  return cache->Find(topic, TopicCache::HashOf(topic));
}

TEST(TopicCache, KnowsWhatWasAdded) {
  TopicCache cache(1 << 20);
  EXPECT_EQ(Find(&cache, "a/1"), nullptr);
  const TopicCache::Topic* added = Add(&cache, "a/1", 7);
  EXPECT_EQ(added->text, "a/1");
  EXPECT_EQ(added->mark.page, 0U);
  Add(&cache, "a/2", 8);
  EXPECT_EQ(Find(&cache, "a"), nullptr);
  TopicCache::Topic* found = Find(&cache, "a/1");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->retention_class, kClass);
  EXPECT_EQ(found->stream, StreamId{7});
  found->mark = {5, 3};
  EXPECT_EQ(Find(&cache, "a/1")->mark.topic, 3U) << "writers leave their marks there";
}

TEST(TopicCache, NumbersTopicsAsTheyCome) {
  TopicCache cache(1 << 20);
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(cache.IndexOf(*Add(&cache, "a/" + std::to_string(i), i)), i);
  }
  EXPECT_EQ(cache.IndexOf(*Find(&cache, "a/4")), 4U);
}

TEST(TopicCache, KeepsItsOwnCopyOfATopic) {
  TopicCache cache(1 << 20);
  std::string topic = "a/1";
  Add(&cache, topic, 7);
  topic = "b/2";
  ASSERT_NE(Find(&cache, "a/1"), nullptr);
  EXPECT_EQ(Find(&cache, "a/1")->text, "a/1");
}

TEST(TopicCache, TellsTopicsWithTheSameHashApart) {
  TopicCache cache(1 << 20);
  const std::uint64_t hash = TopicCache::HashOf("a");
  const std::uint64_t same_slot = hash ^ (std::uint64_t{1} << 63);
  cache.Add("a", hash, kClass, StreamId{1});
  cache.Add("b", hash, kClass, StreamId{2});
  cache.Add("c", same_slot, kClass, StreamId{3});
  EXPECT_EQ(cache.Find("a", hash)->stream, StreamId{1});
  EXPECT_EQ(cache.Find("b", hash)->stream, StreamId{2});
  EXPECT_EQ(cache.Find("c", same_slot)->stream, StreamId{3});
  EXPECT_EQ(cache.Find("c", hash), nullptr);
  EXPECT_EQ(cache.Find("d", hash), nullptr);
}

TEST(TopicCache, GrowsAndKnowsAllStill) {
  constexpr std::uint32_t kCount = 5'000;
  TopicCache cache(std::size_t{64} << 20);
  const auto name = [](std::uint32_t i) { return "site/" + std::to_string(i) + "/value"; };
  for (std::uint32_t i = 0; i < kCount; ++i) Add(&cache, name(i), i);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const TopicCache::Topic* found = Find(&cache, name(i));
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ(found->stream, StreamId{i});
    EXPECT_EQ(found->text, name(i));
  }
}

TEST(TopicCache, TakesTheLongestTopics) {
  TopicCache cache(1 << 20);
  Add(&cache, "short", 1);
  const std::string first(65'535, 'x');
  const std::string second(65'535, 'y');
  Add(&cache, first, 2);
  Add(&cache, second, 3);
  EXPECT_EQ(Find(&cache, "short")->text, "short");
  EXPECT_EQ(Find(&cache, first)->text, first);
  EXPECT_EQ(Find(&cache, second)->stream, StreamId{3});
}

TEST(TopicCache, WhenItIsFullItForgetsEverythingBefore) {
  constexpr std::size_t kBytes = std::size_t{8} << 10;
  TopicCache cache(kBytes);
  std::size_t count = 0;
  for (; count < 1'000; ++count) {
    const auto* added = Add(&cache, "topic/" + std::to_string(1'000 + count), 1);
    if (count > 0 && cache.IndexOf(*added) == 0) break;
  }
  ASSERT_LT(count, kBytes / sizeof(TopicCache::Topic)) << "it takes no more than it may";
  EXPECT_GT(count, 20U);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(Find(&cache, "topic/" + std::to_string(1'000 + i)), nullptr) << i;
  }
  EXPECT_NE(Find(&cache, "topic/" + std::to_string(1'000 + count)), nullptr);
  Add(&cache, "topic/1000", 9);
  EXPECT_EQ(Find(&cache, "topic/1000")->stream, StreamId{9});
}

TEST(TopicCache, ForgetsWhenItIsTold) {
  TopicCache cache(1 << 20);
  Add(&cache, "a", 1);
  cache.Clear();
  EXPECT_EQ(Find(&cache, "a"), nullptr);
  EXPECT_EQ(cache.IndexOf(*Add(&cache, "b", 2)), 0U);
}

TEST(TopicCache, FetchingAheadChangesNothing) {
  TopicCache cache(1 << 20);
  const auto fetch = [&](const std::string& topic) {
    const std::uint64_t hash = TopicCache::HashOf(topic);
    cache.FetchSlot(hash);
    cache.FetchTopic(hash);
    cache.FetchText(hash);
  };
  fetch("a");  // there is no table yet
  Add(&cache, "a", 1);
  fetch("a");
  fetch("b");
  EXPECT_EQ(Find(&cache, "a")->stream, StreamId{1});
  EXPECT_EQ(Find(&cache, "b"), nullptr);
}

}  // namespace
}  // namespace topicdb
