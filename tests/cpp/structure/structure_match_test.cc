#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "structure/structure.h"

namespace topicdb {
namespace {

TEST(RowFilter, DollarRuleAppliesToTheFirstLevelOnly) {
  const Structure structure{{{Filter::LevelKind::kPlus, ""}, {Filter::LevelKind::kPlus, ""}}};
  const auto matches = [&](std::string_view filter, std::vector<std::string_view> words) {
    return RowFilter::Make(structure, Filter::Parse(filter).value())->Matches(words);
  };
  EXPECT_FALSE(matches("#", {"$s", "x"}));
  EXPECT_TRUE(matches("#", {"s", "$x"}));
  EXPECT_TRUE(matches("$s/+", {"$s", "$x"}));
  EXPECT_FALSE(matches("+/x", {"s", "y"}));
}

TEST(TopicBuilder, PutsWordsBack) {
  const Structure structure{{{Filter::LevelKind::kPlus, ""},
                             {Filter::LevelKind::kWord, ""},
                             {Filter::LevelKind::kPlus, ""}}};
  const std::vector<std::string_view> words{"a", ""};
  std::string topic;
  TopicBuilder(structure).Build(words, [&](std::string_view part) { topic += part; });
  EXPECT_EQ(topic, "a//");
}

}  // namespace
}  // namespace topicdb
