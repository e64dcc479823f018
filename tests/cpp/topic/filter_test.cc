#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"

namespace topicdb {
namespace {

bool Matches(std::string_view filter, std::string_view topic) {
  return Filter::Parse(filter).value().Matches(topic);
}

TEST(Filter, MatchesByTheRulesOfMqtt) {
  EXPECT_TRUE(Matches("a/b", "a/b"));
  EXPECT_FALSE(Matches("a/b", "a/b/c"));
  EXPECT_FALSE(Matches("a/b", "a"));
  EXPECT_TRUE(Matches("a/+", "a/"));
  EXPECT_FALSE(Matches("a/+", "a"));
  EXPECT_TRUE(Matches("a/#", "a"));
  EXPECT_TRUE(Matches("a/#", "a/b/c"));
  EXPECT_TRUE(Matches("#", "/"));
  EXPECT_TRUE(Matches("+/+", "/"));
  EXPECT_FALSE(Matches("+", "/"));
  EXPECT_TRUE(Matches("+/b/#", "a/b"));
  EXPECT_TRUE(Matches("a/+/c", "a//c"));
}

TEST(Filter, DollarCountsAtTheFirstLevelOnly) {
  EXPECT_FALSE(Matches("#", "$SYS/x"));
  EXPECT_FALSE(Matches("+/x", "$SYS/x"));
  EXPECT_FALSE(Matches("+", "$"));
  EXPECT_TRUE(Matches("$SYS/#", "$SYS/x"));
  EXPECT_TRUE(Matches("$SYS/+", "$SYS/$x"));
  EXPECT_TRUE(Matches("#", "a/$b"));
  EXPECT_TRUE(Matches("+/+", "a/$b"));
}

TEST(Filter, MalformedOnesAreRefused) {
  for (const std::string_view filter : {"", "a/#/b", "a#", "#a", "a+/b", "++", "a/b+", "##"}) {
    EXPECT_EQ(Filter::Parse(filter).status().code(), Code::kTopic) << filter;
  }
}

TEST(FilterIntersects, WhenATopicMatchesBoth) {
  const auto intersects = [](const char* a, const char* b) {
    const Filter left = Filter::Parse(a).value();
    const Filter right = Filter::Parse(b).value();
    EXPECT_EQ(left.Intersects(right), right.Intersects(left)) << a << " " << b;
    return left.Intersects(right);
  };
  EXPECT_TRUE(intersects("a/b", "a/b"));
  EXPECT_FALSE(intersects("a/b", "a/c"));
  EXPECT_FALSE(intersects("a/b", "a/b/c"));
  EXPECT_TRUE(intersects("a/+", "+/b"));
  EXPECT_TRUE(intersects("a/#", "a"));
  EXPECT_TRUE(intersects("a/#", "+/b/c"));
  EXPECT_FALSE(intersects("a/+", "a"));
  EXPECT_TRUE(intersects("#", "a/b"));
  EXPECT_TRUE(intersects("#", "+"));
  EXPECT_FALSE(intersects("#", "$SYS/a"));
  EXPECT_FALSE(intersects("+/a", "$SYS/a"));
  EXPECT_TRUE(intersects("a/+", "a/$b"));
  EXPECT_FALSE(intersects("a//b", "a/b"));
}

// Returns all texts of one to `depth` levels that these words make.
std::vector<std::string> Texts(const std::vector<std::string>& words, std::size_t depth) {
  std::vector<std::string> texts;
  std::vector<std::string> last{""};
  for (std::size_t level = 0; level < depth; ++level) {
    std::vector<std::string> next;
    for (const std::string& text : last) {
      for (const std::string& word : words) {
        next.push_back(level == 0 ? word : text + "/" + word);
      }
    }
    texts.insert(texts.end(), next.begin(), next.end());
    last = std::move(next);
  }
  return texts;
}

TEST(FilterCovers, IsWhatMatchingSaysOfEveryTopic) {
  std::vector<Filter> filters{Filter::Everything(), Filter::Parse("#").value()};
  for (const std::string& text : Texts({"a", "+", "$x"}, 3)) {
    filters.push_back(Filter::Parse(text).value());
    filters.push_back(Filter::Parse(text + "/#").value());
  }
  const std::vector<std::string> topics = Texts({"a", "$x", "other"}, 4);
  std::vector<std::vector<bool>> matches;
  for (const Filter& filter : filters) {
    std::vector<bool>& matched = matches.emplace_back();
    for (const std::string& topic : topics) matched.push_back(filter.Matches(topic));
  }
  for (std::size_t i = 0; i < filters.size(); ++i) {
    for (std::size_t j = 0; j < filters.size(); ++j) {
      bool covers = true;
      for (std::size_t k = 0; k < topics.size(); ++k) {
        if (matches[j][k] && !matches[i][k]) covers = false;
      }
      ASSERT_EQ(filters[i].Covers(filters[j]), covers)
          << "'" << filters[i].text() << "' '" << filters[j].text() << "'";
    }
  }
}

}  // namespace
}  // namespace topicdb
