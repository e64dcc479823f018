#include "subscribe/interest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/bytes/hash.h"
#include "subscribe/log_parts.h"

namespace topicdb {
namespace {

SharedInterest PartOf(std::uint64_t number, const std::vector<std::string>& filters,
                      std::uint32_t part, std::uint32_t parts) {
  Wanted wanted = *InterestIn(number, filters);
  wanted.part = part;
  wanted.parts = parts;
  return std::make_shared<const Interest>(number, wanted);
}

std::vector<std::string> TextsOf(const InterestSet& set) {
  std::vector<std::string> texts;
  for (const Filter& filter : set.filters()) texts.push_back(filter.text());
  return texts;
}

TEST(Wanted, HasTheKeyOfItsEqualsOnly) {
  EXPECT_EQ(InterestIn(1, {"a/b", "+"}, 7)->Key(), InterestIn(2, {"a/b", "+"}, 7)->Key());
  Wanted everything;
  everything.filters = {Filter::Everything()};
  const std::vector<Wanted> others{*InterestIn(1, {"a/b"}),      *InterestIn(1, {"a", "b"}),
                                   *InterestIn(1, {"a"}),        *InterestIn(1, {"a/b"}, 1),
                                   *PartOf(1, {"a/b"}, 0, 2),    *PartOf(1, {"a/b"}, 1, 2),
                                   *PartOf(1, {"a/b"}, 1, 3),    *PartOf(1, {"a/b"}, 1, 22),
                                   *PartOf(1, {"a/b"}, 11, 22),  *InterestIn(1, {"a/b"}, 11),
                                   *InterestIn(1, {"a/b 1/2"}),  *InterestIn(1, {"#"}),
                                   *InterestIn(1, {"a/b", "#"}), everything};
  std::set<std::string> keys;
  for (const Wanted& wanted : others) keys.insert(wanted.Key());
  EXPECT_EQ(keys.size(), others.size());
}

TEST(Interest, WantsWhatAnyOfItsFiltersMatches) {
  const SharedInterest interest = InterestIn(1, {"a/+", "b/#"}, 100);
  EXPECT_TRUE(interest->Wants("a/x"));
  EXPECT_TRUE(interest->Wants("b"));
  EXPECT_FALSE(interest->Wants("a"));
  EXPECT_FALSE(interest->Wants("c"));
  EXPECT_TRUE(interest->Covers(Filter::Parse("b/x/#").value()));
  EXPECT_FALSE(interest->Covers(Filter::Parse("+/x").value())) << "it wants only a part of these";
}

TEST(Interest, OfAPartHasTheTopicsThatItsHashGivesIt) {
  constexpr std::uint32_t kParts = 3;
  std::vector<int> counts(kParts);
  for (int i = 0; i < 300; ++i) {
    const std::string topic = "a/" + std::to_string(i);
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const bool wants = PartOf(1, {"a/+"}, part, kParts)->Wants(topic);
      EXPECT_EQ(wants, Hash64(topic) % kParts == part) << topic << ", part " << part;
      counts[part] += wants ? 1 : 0;
    }
    EXPECT_FALSE(PartOf(1, {"b/+"}, Hash64(topic) % kParts, kParts)->Wants(topic));
  }
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 50);
}

TEST(InterestSet, IsSortedByNumberAndKnowsItsOwn) {
  const InterestSet set({InterestIn(9, {"c"}), InterestIn(2, {"a"}), InterestIn(5, {"b"})});
  std::vector<std::uint64_t> numbers;
  for (const SharedInterest& interest : set.interests()) numbers.push_back(interest->number);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{2, 5, 9}));
  for (const std::uint64_t number : numbers) EXPECT_TRUE(set.Has(*InterestIn(number, {"x"})));
  for (const std::uint64_t number : {1, 3, 10}) {
    EXPECT_FALSE(set.Has(*InterestIn(number, {"a"}))) << number;
  }
}

TEST(InterestSet, ReadsEachTopicOnceByTheFiltersThatCoverOthers) {
  const InterestSet set({InterestIn(1, {"a/b", "c"}, 9), InterestIn(2, {"a/#"}, 4),
                         InterestIn(3, {"a/+/x", "c"}, 7)});
  EXPECT_EQ(TextsOf(set), (std::vector<std::string>{"c", "a/#"}));
  EXPECT_EQ(set.timestamp_min(), 4);
}

TEST(InterestSet, OfManyFiltersReadsEverything) {
  const InterestSet four({InterestIn(1, {"a", "b", "c"}), InterestIn(2, {"d", "a"})});
  EXPECT_EQ(TextsOf(four), (std::vector<std::string>{"a", "b", "c", "d"}));
  const InterestSet five({InterestIn(1, {"a", "b", "c"}), InterestIn(2, {"d", "e"})});
  ASSERT_EQ(five.filters().size(), 1U);
  EXPECT_TRUE(five.filters().front().is_everything());
  EXPECT_TRUE(five.Covers(*InterestIn(3, {"$x/y"})));
  EXPECT_EQ(five.WhoWants("e"), std::vector<std::uint32_t>{1});
  EXPECT_TRUE(five.WhoWants("f").empty()) << "a read finds it, and nobody gets it";
}

TEST(InterestSet, CoversWhomItsReadServes) {
  const InterestSet set({InterestIn(1, {"a/#"}, 50), InterestIn(2, {"b"}, 10)});
  EXPECT_TRUE(set.Covers(*InterestIn(3, {"a/x/+", "b"}, 10)));
  EXPECT_FALSE(set.Covers(*InterestIn(3, {"a/x", "c"}, 10))) << "of one filter nothing is read";
  EXPECT_FALSE(set.Covers(*InterestIn(3, {"a/x"}, 9))) << "it wants older messages";
}

TEST(InterestSet, ReadsLikeOthersWithTheSameFiltersAndTime) {
  const InterestSet set({InterestIn(1, {"a/#", "b"}, 5)});
  EXPECT_TRUE(set.ReadsLike(InterestSet({InterestIn(7, {"a/#", "b", "a/x"}, 5)})));
  EXPECT_TRUE(set.ReadsLike(InterestSet({InterestIn(8, {"a/#"}, 9), InterestIn(9, {"b"}, 5)})));
  EXPECT_FALSE(set.ReadsLike(InterestSet({InterestIn(7, {"a/#", "b"}, 6)})));
  EXPECT_FALSE(set.ReadsLike(InterestSet({InterestIn(7, {"a/#"}, 5)})));
  EXPECT_FALSE(set.ReadsLike(InterestSet({InterestIn(7, {"a/#", "b", "c"}, 5)})));
}

// A read for many filters finds more than they want, and generations without a log may have that.
TEST(InterestSet, KnowsWhatEachWantsOfTheLog) {
  const InterestSet set({InterestIn(1, {"a", "b/#"}, 7), InterestIn(2, {"a"})});
  const std::vector<LogWant> wants = set.LogWants();
  ASSERT_EQ(wants.size(), 3U);
  EXPECT_EQ(wants[0].filter.text(), "a");
  EXPECT_EQ(wants[0].range.start, 7);
  EXPECT_EQ(wants[1].filter.text(), "b/#");
  EXPECT_EQ(wants[1].range.start, 7);
  EXPECT_EQ(wants[2].filter.text(), "a");
  EXPECT_EQ(wants[2].range.start, std::nullopt);
}

TEST(InterestSet, IsUniformIfAllWantEveryTopicThatIsRead) {
  EXPECT_TRUE(InterestSet({InterestIn(1, {"a"})}).is_uniform());
  EXPECT_TRUE(InterestSet({InterestIn(1, {"a", "b"}), InterestIn(2, {"b", "a"}, 7)}).is_uniform())
      << "times do not matter";
  EXPECT_FALSE(InterestSet({InterestIn(1, {"a"}), InterestIn(2, {"a", "b"})}).is_uniform());
  EXPECT_FALSE(InterestSet({PartOf(1, {"a"}, 0, 2)}).is_uniform()) << "the rest is read, too";
  EXPECT_FALSE(InterestSet({InterestIn(1, {"a", "b", "c", "d", "e"})}).is_uniform());
  const InterestSet set({InterestIn(1, {"a/+"})});
  EXPECT_TRUE(set.WantsAllTopics(*InterestIn(2, {"a/#"})));
  EXPECT_FALSE(set.WantsAllTopics(*InterestIn(2, {"a/x"})));
}

TEST(InterestSet, TellsWhoWantsATopicAsEachInterestDoes) {
  const std::vector<std::string> words{"a", "b", "$x", "+", "#"};
  std::mt19937 random(11);
  std::vector<SharedInterest> interests;
  while (interests.size() < 40) {
    std::vector<std::string> filters;
    for (std::size_t count = 1 + random() % 3; count > 0; --count) {
      std::string text = words[random() % 5];
      for (std::size_t depth = random() % 3; depth > 0; --depth) text += "/" + words[random() % 5];
      if (Filter::Parse(text).ok()) filters.push_back(text);
    }
    if (filters.empty()) continue;
    const std::uint32_t parts = 1 + random() % 3;
    interests.push_back(PartOf(interests.size() + 1, filters, random() % parts, parts));
  }
  const InterestSet set(interests);
  ASSERT_FALSE(set.is_uniform());
  std::size_t found = 0;
  for (int round = 0; round < 300; ++round) {
    std::string topic = words[random() % 3];
    for (std::size_t depth = random() % 4; depth > 0; --depth) topic += "/" + words[random() % 3];
    std::vector<std::uint32_t> wanted;  // each once, although some filters of an interest overlap
    for (std::uint32_t i = 0; i < interests.size(); ++i) {
      if (interests[i]->Wants(topic)) wanted.push_back(i);
    }
    EXPECT_EQ(set.WhoWants(topic), wanted) << topic;
    found += wanted.size();
  }
  EXPECT_GT(found, 300U);
}

}  // namespace
}  // namespace topicdb
