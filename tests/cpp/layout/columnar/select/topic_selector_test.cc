#include "layout/columnar/select/topic_selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "layout/columnar/format/block_filter.h"

namespace topicdb::columnar {
namespace {

struct Topic {
  std::uint32_t stream;
  std::string name;
  auto operator<=>(const Topic&) const = default;
};
using Topics = std::vector<Topic>;
using Streams = std::optional<std::vector<std::uint32_t>>;

TopicSelector Selector(const std::string& filter, const Streams& streams = std::nullopt) {
  ReadRequest request;
  if (streams.has_value()) request.streams.emplace(streams->begin(), streams->end());
  request.filter = Filter::Parse(filter).value();
  return TopicSelector(request);
}

bool Selects(const TopicSelector& selector, const Topic& topic) {
  return selector.Selects(StreamId{topic.stream}, topic.name);
}

// A block as sealing makes it: its topics are sorted, and the directory has the first topic of each
// page.
struct BlockOfTopics {
  std::vector<Topics> pages;
  Directory directory;
  std::string stream_filter;
  std::string word_filter;
};

BlockOfTopics MakeBlock(const Topics& sorted, std::mt19937_64* random) {
  BlockOfTopics block;
  FilterBuilder streams;
  FilterBuilder words;
  for (const Topic& topic : sorted) {
    if (block.pages.empty() || (*random)() % 3 == 0) {
      // A topic with many messages goes on from page to page.
      const bool goes_on = !block.pages.empty() && (*random)() % 3 == 0;
      const Topic first = goes_on ? block.pages.back().back() : topic;
      block.pages.push_back({first});
      PageEntry entry;
      entry.first_stream = StreamId{first.stream};
      entry.first_topic = first.name;
      block.directory.push_back(entry);
    }
    block.pages.back().push_back(topic);
    streams.Add(StreamHash(StreamId{topic.stream}));
    words.AddWords(topic.name);
  }
  block.stream_filter = streams.Build();
  block.word_filter = words.Build();
  return block;
}

Topics RandomTopics(std::mt19937_64* random) {
  const std::vector<std::string> words{"", "a", "b", "ab", "a!", "$s", "\xc3\xa9"};
  Topics topics;
  for (std::uint64_t left = 1 + (*random)() % 30; left > 0; --left) {
    std::string name = words[(*random)() % words.size()];
    for (std::uint64_t levels = (*random)() % 4; levels > 0; --levels) {
      name += "/" + words[(*random)() % words.size()];
    }
    if (!name.empty()) topics.push_back({static_cast<std::uint32_t>(1 + (*random)() % 4), name});
  }
  if (topics.empty()) topics.push_back({1, "a"});
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  return topics;
}

const std::vector<std::string>& Filters() {
  static const std::vector<std::string> filters{
      "#",     "+",    "a",   "a/#", "a/+",     "a/b",        "a/b/#",   "+/b",  "+/b/#",
      "a/+/b", "/",    "/#",  "/+",  "a//b",    "a//#",       "ab/#",    "ab",   "a!",
      "a!/#",  "$s/#", "$s",  "+/+", "+/+/#",   "b/a/#",      "b/ab/a!", "zz/#", "!",
      "+/#",   "//",   "//#", "a/",  "a/+/+/b", "\xc3\xa9/#", "\xc3\xa9"};
  return filters;
}

TEST(TopicSelector, SelectsWhatMatchesInItsStreams) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    for (const Topic& topic : RandomTopics(&random)) {
      for (const std::string& filter : Filters()) {
        const bool matches = Filter::Parse(filter).value().Matches(topic.name);
        EXPECT_EQ(Selects(Selector(filter), topic), matches) << filter << " " << topic.name;
        const std::vector<std::uint32_t> streams{2, 3};
        const bool is_wanted = topic.stream == 2 || topic.stream == 3;
        EXPECT_EQ(Selects(Selector(filter, streams), topic), matches && is_wanted)
            << filter << " " << topic.name;
      }
    }
  }
}

TEST(TopicSelector, NeverSkipsAPageOrBlockThatHoldsASelectedTopic) {
  std::mt19937_64 random(2);
  std::size_t skipped = 0;
  for (int round = 0; round < 1'000; ++round) {
    const BlockOfTopics block = MakeBlock(RandomTopics(&random), &random);
    for (const std::string& filter : Filters()) {
      Streams streams;
      if (random() % 2 == 0) {
        streams.emplace();
        for (std::uint32_t stream = 1; stream < 6; ++stream) {
          if (random() % 2 == 0) streams->push_back(stream);
        }
      }
      const TopicSelector selector = Selector(filter, streams);
      for (std::size_t page = 0; page < block.pages.size(); ++page) {
        const bool is_last = page + 1 == block.pages.size();
        const bool may = selector.MayHoldPage(selector.streams(), block.directory[page],
                                              is_last ? nullptr : &block.directory[page + 1]);
        const bool holds =
            std::any_of(block.pages[page].begin(), block.pages[page].end(),
                        [&](const Topic& topic) { return Selects(selector, topic); });
        ASSERT_TRUE(may || !holds) << filter << ", page " << page << " of round " << round;
        ASSERT_TRUE(!holds || selector.MayHoldStreams(block.stream_filter)) << filter;
        ASSERT_TRUE(!holds || selector.MayHoldWords(block.word_filter)) << filter;
        skipped += may ? 0 : 1;
      }
    }
  }
  EXPECT_GT(skipped, 10'000U);
}

TEST(TopicSelector, SkipsPagesBeforeAndBehindTheWantedTopics) {
  const auto may_hold = [](const std::string& filter, const Streams& streams, const Topic& first,
                           const Topic& next) {
    PageEntry page;
    page.first_stream = StreamId{first.stream};
    page.first_topic = first.name;
    PageEntry following;
    following.first_stream = StreamId{next.stream};
    following.first_topic = next.name;
    const TopicSelector selector = Selector(filter, streams);
    return selector.MayHoldPage(selector.streams(), page, &following);
  };
  EXPECT_FALSE(may_hold("m/#", std::nullopt, {1, "a"}, {1, "b"}));
  EXPECT_FALSE(may_hold("m/#", std::nullopt, {1, "n"}, {1, "o"}));
  EXPECT_TRUE(may_hold("m/#", std::nullopt, {1, "a"}, {1, "m"}));
  EXPECT_TRUE(may_hold("m/#", std::nullopt, {1, "a"}, {2, "b"}));
  EXPECT_TRUE(may_hold("m/+/x", std::nullopt, {1, "m/a/y"}, {1, "m/b"}));
  EXPECT_FALSE(may_hold("m/a", std::nullopt, {1, "m/a/y"}, {1, "m/b"}));
  EXPECT_FALSE(may_hold("#", std::vector<std::uint32_t>{3}, {1, "a"}, {2, "b"}));
  EXPECT_TRUE(may_hold("#", std::vector<std::uint32_t>{3}, {2, "a"}, {4, "b"}));
  EXPECT_FALSE(may_hold("m/#", std::vector<std::uint32_t>{1}, {1, "n"}, {4, "b"}));
  EXPECT_FALSE(may_hold("m/#", std::vector<std::uint32_t>{4}, {1, "n"}, {4, "b"}));
  EXPECT_FALSE(may_hold("#", std::vector<std::uint32_t>{}, {1, "n"}, {4, "b"}));
}

TEST(TopicSelector, AsksForWordsWhereTheFilterHasSome) {
  FilterBuilder builder;
  builder.AddWords("a/b/c");
  const std::string words = builder.Build();
  for (const char* filter : {"#", "+", "+/+/#"}) EXPECT_FALSE(Selector(filter).has_words());
  for (const char* filter : {"a/#", "+/b", "+/+/c", "a/b/c"}) {
    EXPECT_TRUE(Selector(filter).has_words());
    EXPECT_TRUE(Selector(filter).MayHoldWords(words)) << filter;
  }
  for (const char* filter : {"b/#", "+/a", "a/b/d", "a/b/c/d"}) {
    EXPECT_FALSE(Selector(filter).MayHoldWords(words)) << filter;
  }
}

TEST(TopicSelector, APointIsOneTopicAtOneMoment) {
  const PlacedMessage place{StreamId{4}, "a/b", {}, 99, Serial{1}, 0, "v"};
  const ReadRequest request = PointRequest(place, Filter::Parse("a/b").value(), {}, Serial{17});
  EXPECT_EQ(request.streams, std::vector<StreamId>{StreamId{4}});
  EXPECT_EQ(request.range, (TimeRange{99, 100}));
  EXPECT_EQ(request.serial_max, Serial{17});
  EXPECT_TRUE(Selects(TopicSelector(request), {4, "a/b"}));
  EXPECT_FALSE(Selects(TopicSelector(request), {4, "a/b/c"}));
  EXPECT_FALSE(Selects(TopicSelector(request), {5, "a/b"}));
}

}  // namespace
}  // namespace topicdb::columnar
