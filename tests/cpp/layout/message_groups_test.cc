#include "layout/message_groups.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace topicdb {
namespace {

constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();

SummaryOptions ByLevels(std::uint32_t levels) {
  SummaryOptions options;
  options.topic_levels = levels;
  return options;
}

SummaryOptions BySpans(std::int64_t span, std::int64_t origin = 0) {
  SummaryOptions options;
  options.span = span;
  options.span_origin = origin;
  return options;
}

TEST(MessageGroups, WithoutOptionsHaveOneGroup) {
  MessageGroups groups({});
  EXPECT_TRUE(groups.Sorted().empty());
  groups.CountOf("a/b", 5).Add(1, 5, 5);
  groups.CountOf("c", 900).Add(3, 2, 900);
  EXPECT_EQ(groups.Sorted(), (std::vector<MessageGroup>{{"", std::nullopt, 4, 2, 900}}));
  EXPECT_TRUE(groups.AreOneGroup("a", "z"));
  EXPECT_TRUE(groups.SpanOf(7).Holds(kTimeMax));
}

TEST(MessageGroups, AreNamedAfterTheFirstLevels) {
  const MessageGroups two(ByLevels(2));
  EXPECT_EQ(two.NameOf("a/b/c/d"), "a/b");
  EXPECT_EQ(two.NameOf("a/b"), "a/b");
  EXPECT_EQ(two.NameOf("a"), "a") << "it has fewer levels";
  EXPECT_EQ(two.NameOf("a//c"), "a/") << "a level may be empty";
  EXPECT_EQ(two.NameOf("/b/c"), "/b");
  EXPECT_EQ(MessageGroups(ByLevels(1)).NameOf("/b/c"), "");
  EXPECT_EQ(MessageGroups(ByLevels(SummaryOptions::kAllLevels)).NameOf("a/b/c/d"), "a/b/c/d");
  EXPECT_EQ(MessageGroups({}).NameOf("a/b/c/d"), "");
}

TEST(MessageGroups, TopicsBetweenTwoAreOneGroupOnlyIfAllOfThemAre) {
  const MessageGroups one(ByLevels(1));
  EXPECT_TRUE(one.AreOneGroup("a", "a"));
  EXPECT_TRUE(one.AreOneGroup("a/b", "a/c"));
  EXPECT_FALSE(one.AreOneGroup("a/b", "b/c"));
  EXPECT_FALSE(one.AreOneGroup("a", "a/c")) << "'a!' lies between them";
  const MessageGroups whole(ByLevels(SummaryOptions::kAllLevels));
  EXPECT_TRUE(whole.AreOneGroup("a/b", "a/b"));
  EXPECT_FALSE(whole.AreOneGroup("a/b", "a/c"));
}

TEST(MessageGroups, SpansCountFromTheirOrigin) {
  const MessageGroups tens(BySpans(10));
  EXPECT_EQ(tens.SpanOf(0).first, 0);
  EXPECT_EQ(tens.SpanOf(19).first, 10);
  EXPECT_EQ(tens.SpanOf(19).last, 19);
  EXPECT_FALSE(tens.SpanOf(19).Holds(20));
  EXPECT_EQ(MessageGroups(BySpans(10, 3)).SpanOf(2).first, -7);
  EXPECT_EQ(MessageGroups(BySpans(10, 3)).SpanOf(3).first, 3);
  EXPECT_EQ(MessageGroups(BySpans(10, -3)).SpanOf(6).first, -3);
  EXPECT_EQ(MessageGroups(BySpans(10, -1003)).SpanOf(7).first, 7);
}

TEST(MessageGroups, SpansOfExtremeTimesDoNotOverflow) {
  for (const std::int64_t span : {std::int64_t{1}, std::int64_t{7}, SummaryOptions::kSpanMax}) {
    for (const std::int64_t origin : {std::int64_t{0}, kTimeMax, std::int64_t{-kTimeMax}}) {
      const MessageGroups groups(BySpans(span, origin));
      for (const std::int64_t time : {std::int64_t{0}, std::int64_t{1}, kTimeMax - 1, kTimeMax}) {
        const MessageGroups::Span found = groups.SpanOf(time);
        EXPECT_TRUE(found.Holds(time)) << span << ' ' << origin << ' ' << time;
        EXPECT_LE(found.last - found.first, span - 1);
      }
    }
  }
}

TEST(MessageGroups, ComeByTopicAndTime) {
  SummaryOptions options = BySpans(10);
  options.topic_levels = 1;
  MessageGroups groups(options);
  groups.CountOf("b/1", 11).Add(1, 11, 11);
  groups.CountOf("b/2", 5).Add(1, 5, 5);
  groups.CountOf("a", 25).Add(1, 25, 25);
  groups.CountOf("b", 9).Add(1, 9, 9);
  EXPECT_EQ(groups.Sorted(), (std::vector<MessageGroup>{
                                 {"a", 20, 1, 25, 25}, {"b", 0, 2, 5, 9}, {"b", 10, 1, 11, 11}}));
}

TEST(MessageGroups, HaveAMostNumber) {
  SummaryOptions options = ByLevels(1);
  options.groups_max = 2;
  MessageGroups groups(options);
  groups.CountOf("a", 1);
  groups.CountOf("b", 1);
  EXPECT_TRUE(groups.CheckSize().ok());
  groups.CountOf("c", 1);
  EXPECT_EQ(groups.CheckSize().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace topicdb
