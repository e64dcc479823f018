#include "store/retention_class.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(RetentionRules, TheFirstMatchDecides) {
  const RetentionRules rules =
      RetentionRules::Make({{"alarm/#", 1}, {"+/debug", 2}, {"$SYS/#", 3}}).value();
  ASSERT_EQ(rules.size(), 4U);  // an implicit last class takes the rest
  EXPECT_EQ(rules.ClassOf("alarm"), 0U);
  EXPECT_EQ(rules.ClassOf("alarm/debug"), 0U);
  EXPECT_EQ(rules.ClassOf("a/debug"), 1U);
  EXPECT_EQ(rules.ClassOf("$SYS/debug"), 2U);
  EXPECT_EQ(rules.ClassOf("$other/debug"), 3U);  // '+' takes no '$…' level
  EXPECT_EQ(rules.ClassOf("a"), 3U);
  EXPECT_EQ(rules.FilterOf(3), "#");
}

TEST(RetentionRules, AnExplicitRestIsTheLastClass) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1}, {"#", 2}}).value();
  EXPECT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules.ClassOf("$SYS/x"), 1U);  // every topic has a class
  EXPECT_EQ(RetentionRules::Make({}).value().size(), 1U);
}

TEST(RetentionRules, ClassesAreFoundByTheirFilter) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1}}).value();
  EXPECT_EQ(rules.IndexOf("a/#").value(), 0U);
  EXPECT_EQ(rules.IndexOf("#").value(), 1U);
  const Status status = rules.IndexOf("b").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'a/#', '#'"), std::string::npos) << status.message();
}

TEST(RetentionRules, ImpossibleOnesAreRefused) {
  using Classes = std::vector<RetentionClass>;
  for (const Classes& classes : {Classes{{"#", 1}, {"a", 1}}, Classes{{"a", 1}, {"a", 2}},
                                 Classes{{"a#", 1}}, Classes{{"", 1}}, Classes{{"a", -1}}}) {
    EXPECT_EQ(RetentionRules::Make(classes).status().code(), Code::kSchema);
  }
}

}  // namespace
}  // namespace topicdb
