#include "store/catalog/retention_class.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

std::vector<RetentionClassId> Ids(const std::vector<std::uint32_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(RetentionRules, ChangedAreThoseThatTopicsMayHaveComeIntoOrLeft) {
  const RetentionRules first = RetentionRules::Make({{"a/#", 1}, {"b/#", 2}, {"#", 3}}).value();
  EXPECT_EQ(first.ChangedSince(first), Ids({}));
  // Other ages change nothing, nor does another order of filters that have no topic in common.
  EXPECT_EQ(first.With({{"a/#", 5}, {"b/#", 6}}).value().ChangedSince(first), Ids({}));
  EXPECT_EQ(first.With({{"b/#", 2}, {"a/#", 1}}).value().ChangedSince(first), Ids({}));
  // The topic a/x leaves a/#. The last class counts too, since it takes whatever no other class
  // takes.
  const RetentionRules more = first.With({{"a/x", 1}, {"a/#", 1}, {"b/#", 2}}).value();
  const std::uint32_t added = more.IndexOf("a/x").value().value();
  EXPECT_EQ(more.ChangedSince(first), Ids({added, 0, 2}));
  // The topic a/x comes back to a/#, and its class is retired.
  const RetentionRules back = more.With({{"a/#", 1}, {"b/#", 2}}).value();
  EXPECT_EQ(back.ChangedSince(more), Ids({0, 2, added}));
  // The filters +/1 and a/# have a topic in common, so their order counts.
  const RetentionRules either = RetentionRules::Make({{"+/1", 1}, {"a/#", 2}}).value();
  const RetentionRules other = either.With({{"a/#", 2}, {"+/1", 1}}).value();
  EXPECT_EQ(other.ChangedSince(either), Ids({1, 0}));
}

TEST(RetentionRules, TheFirstMatchDecides) {
  const RetentionRules rules =
      RetentionRules::Make({{"alarm/#", 1}, {"+/debug", 2}, {"$SYS/#", 3}}).value();
  ASSERT_EQ(rules.live().size(), 4U);  // an implicit last class takes the rest
  EXPECT_EQ(rules.ClassOf("alarm"), RetentionClassId{0});
  EXPECT_EQ(rules.ClassOf("alarm/debug"), RetentionClassId{0});
  EXPECT_EQ(rules.ClassOf("a/debug"), RetentionClassId{1});
  EXPECT_EQ(rules.ClassOf("$SYS/debug"), RetentionClassId{2});
  EXPECT_EQ(rules.ClassOf("$other/debug"), RetentionClassId{3});  // '+' takes no '$…' level
  EXPECT_EQ(rules.ClassOf("a"), RetentionClassId{3});
  EXPECT_EQ(rules.FilterOf(RetentionClassId{3}), "#");
}

TEST(RetentionRules, AnExplicitRestIsTheLastClass) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1}, {"#", 2}}).value();
  EXPECT_EQ(rules.live().size(), 2U);
  EXPECT_EQ(rules.ClassOf("$SYS/x"), RetentionClassId{1});  // every topic has a class
  EXPECT_EQ(RetentionRules::Make({}).value().live().size(), 1U);
}

TEST(RetentionRules, ClassesAreFoundByTheirFilter) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1}}).value();
  EXPECT_EQ(rules.IndexOf("a/#").value(), RetentionClassId{0});
  EXPECT_EQ(rules.IndexOf("#").value(), RetentionClassId{1});
  const Status status = rules.IndexOf("b").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'a/#', '#'"), std::string::npos) << status.message();
}

TEST(RetentionRules, ImpossibleOnesAreRefused) {
  using Classes = std::vector<RetentionClass>;
  for (const Classes& classes :
       {Classes{{"#", 1}, {"a", 1}}, Classes{{"a", 1}, {"a", 2}}, Classes{{"a#", 1}},
        Classes{{"", 1}}, Classes{{"a", -1}}, Classes{{"a", 1, 0, -1}}}) {
    EXPECT_EQ(RetentionRules::Make(classes).status().code(), Code::kSchema);
  }
}

TEST(RetentionRules, AFilterThatAnEarlierOneTakesEverythingFrom) {
  EXPECT_TRUE(CheckReachable({{"a/+", 1}, {"a/#", 1}, {"+/#", 1}, {"$a/#", 1}, {"#", 1}}).ok());
  const Status status = CheckReachable({{"a/#", 1}, {"b", 1}, {"a/+/c", 1}});
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_NE(status.message().find("'a/#' takes every topic of 'a/+/c'"), std::string::npos);
}

TEST(RetentionRules, NumbersStayWhenClassesChange) {
  const RetentionRules first = RetentionRules::Make({{"a/#", 1}, {"b/#", 2}}).value();
  EXPECT_EQ(first.reserved(), RetentionClassId{3});
  const RetentionRules second = first.With({{"c/#", 3}, {"b/#", 4}}).value();
  EXPECT_EQ(second.version(), 1U);
  EXPECT_EQ(second.reserved(), RetentionClassId{3});
  EXPECT_EQ(second.ClassOf("c/1"), RetentionClassId{4});  // the first number that was free
  EXPECT_EQ(second.ClassOf("b/1"), RetentionClassId{1});
  EXPECT_EQ(second.ClassOf("a/1"), RetentionClassId{2});  // the class of "#" now
  EXPECT_EQ(second.FilterOf(RetentionClassId{0}), "a/#");
  EXPECT_EQ(second.IndexOf("a/#").value(), RetentionClassId{0});
  EXPECT_EQ(second.ClassesWith("a/1"), Ids({2, 0}));
  EXPECT_EQ(second.ClassesWith("c/1"), Ids({4, 2}));
  EXPECT_EQ(first.ClassesWith("a/1"), Ids({0}));
  const RetentionRules third = second.With({{"a/#", 9}}).value();
  EXPECT_EQ(third.ClassOf("a/1"), RetentionClassId{0});
  EXPECT_EQ(third.Find(RetentionClassId{0})->limits.age_us, 9);
  EXPECT_EQ(third.ids_end(), RetentionClassId{5});
  EXPECT_EQ(third.ids(), Ids({0, 2, 4, 1}));
}

TEST(RetentionRules, ARetiredClassIsKeptAsLongAsAnyThatHasItsTopicsNow) {
  const RetentionRules first = RetentionRules::Make({{"a/#", 5, 100, 1}}).value();
  const auto retired = [&](const std::vector<RetentionClass>& classes) {
    return first.With(classes).value().Find(RetentionClassId{0})->limits;
  };
  EXPECT_EQ(retired({{"a/x", 7}, {"b", 50}, {"#", 3}}), (RetentionClass{"a/#", 7, 0, 1}));
  EXPECT_EQ(retired({{"a/x", 7}, {"#", 30}}), (RetentionClass{"a/#", 30, 0, 1}));
  EXPECT_EQ(retired({{"+/#", 7}, {"#", 30}}), (RetentionClass{"a/#", 7, 0, 1}));
  EXPECT_EQ(retired({{"a/x", 7}}), (RetentionClass{"a/#", 0, 0, 0}));  // "#" keeps everything
  EXPECT_EQ(retired({}), (RetentionClass{"a/#", 0, 0, 0}));
  // A message of the retired class may belong to any of these now, so it stays as long as any of
  // them says.
  EXPECT_EQ(retired({{"a/x", 7, 0, 0, 2}, {"#", 0, 0, 0, 5}}), (RetentionClass{"a/#", 7, 0, 1, 5}));
  EXPECT_EQ(retired({{"#", 0, 0, 0, 5}}), (RetentionClass{"a/#", 0, 0, 1, 5}));
  EXPECT_EQ(retired({{"a/x", 0, 0, 0, 2}}), (RetentionClass{"a/#", 0, 0, 0, 0}));
  EXPECT_EQ(retired({{"#", 0, 90, 0, 5}}), (RetentionClass{"a/#", 0, 0, 0, 0}));
}

}  // namespace
}  // namespace topicdb
