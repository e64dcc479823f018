#include "subscribe/filter_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace topicdb {
namespace {

std::vector<std::uint32_t> Sorted(const FilterTree& tree, const std::string& topic) {
  std::vector<std::uint32_t> numbers;
  tree.Match(topic, &numbers);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(FilterTree, FindsWhatEachFilterMatches) {
  const std::vector<std::string> words{"", "a", "b", "$x", "+", "#"};
  std::mt19937 random(7);
  const auto word = [&](std::size_t count) { return words[random() % count]; };
  std::vector<Filter> filters{Filter::Everything()};
  while (filters.size() < 300) {
    std::string text = word(words.size());
    for (std::size_t depth = random() % 4; depth > 0; --depth) text += "/" + word(words.size());
    if (auto filter = Filter::Parse(text); filter.ok()) filters.push_back(*filter);
  }
  FilterTree tree;
  for (std::uint32_t i = 0; i < filters.size(); ++i) tree.Add(filters[i], i);
  std::size_t found = 0;
  for (int round = 0; round < 500; ++round) {
    std::string topic = word(4);
    for (std::size_t depth = random() % 5; depth > 0; --depth) topic += "/" + word(4);
    if (topic.empty()) continue;
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < filters.size(); ++i) {
      if (filters[i].Matches(topic)) wanted.push_back(i);
    }
    EXPECT_EQ(Sorted(tree, topic), wanted) << topic;
    found += wanted.size();
  }
  EXPECT_GT(found, 5'000U);
}

TEST(FilterTree, TakesFiltersOfAnyDepth) {
  std::string deep = "+";
  for (int i = 0; i < 30'000; ++i) deep += "/+";
  FilterTree tree;
  tree.Add(Filter::Parse(deep).value(), 5);
  std::string topic = "a";
  for (int i = 0; i < 30'000; ++i) topic += "/a";
  EXPECT_EQ(Sorted(tree, topic), std::vector<std::uint32_t>{5});
  EXPECT_TRUE(Sorted(tree, topic + "/a").empty());
}

}  // namespace
}  // namespace topicdb
