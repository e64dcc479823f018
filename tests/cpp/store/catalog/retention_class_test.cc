#include "store/catalog/retention_class.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace topicdb {
namespace {

using namespace std::chrono_literals;

std::vector<RetentionClassId> Ids(const std::vector<std::uint32_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(RetentionRules, ChangedAreThoseThatTopicsMayHaveComeIntoOrLeft) {
  const RetentionRules first =
      RetentionRules::Make({{"a/#", 1us}, {"b/#", 2us}, {"#", 3us}}).value();
  EXPECT_EQ(first.ChangedSince(first), Ids({}));
  // Other ages change nothing, nor does another order of filters that have no topic in common.
  EXPECT_EQ(first.With({{"a/#", 5us}, {"b/#", 6us}}).value().ChangedSince(first), Ids({}));
  EXPECT_EQ(first.With({{"b/#", 2us}, {"a/#", 1us}}).value().ChangedSince(first), Ids({}));
  // The topic a/x leaves a/#. The last class counts too, since it takes whatever no other class
  // takes.
  const RetentionRules more = first.With({{"a/x", 1us}, {"a/#", 1us}, {"b/#", 2us}}).value();
  const std::uint32_t added = more.IndexOf("a/x").value().value();
  EXPECT_EQ(more.ChangedSince(first), Ids({added, 0, 2}));
  // The topic a/x comes back to a/#, and its class is retired.
  const RetentionRules back = more.With({{"a/#", 1us}, {"b/#", 2us}}).value();
  EXPECT_EQ(back.ChangedSince(more), Ids({0, 2, added}));
  // The filters +/1 and a/# have a topic in common, so their order counts.
  const RetentionRules either = RetentionRules::Make({{"+/1", 1us}, {"a/#", 2us}}).value();
  const RetentionRules other = either.With({{"a/#", 2us}, {"+/1", 1us}}).value();
  EXPECT_EQ(other.ChangedSince(either), Ids({1, 0}));
}

TEST(RetentionRules, TheFirstMatchDecides) {
  const RetentionRules rules =
      RetentionRules::Make({{"alarm/#", 1us}, {"+/debug", 2us}, {"$SYS/#", 3us}}).value();
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
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1us}, {"#", 2us}}).value();
  EXPECT_EQ(rules.live().size(), 2U);
  EXPECT_EQ(rules.ClassOf("$SYS/x"), RetentionClassId{1});  // every topic has a class
  EXPECT_EQ(RetentionRules::Make({}).value().live().size(), 1U);
}

TEST(RetentionRules, ClassesAreFoundByTheirFilter) {
  const RetentionRules rules = RetentionRules::Make({{"a/#", 1us}}).value();
  EXPECT_EQ(rules.IndexOf("a/#").value(), RetentionClassId{0});
  EXPECT_EQ(rules.IndexOf("#").value(), RetentionClassId{1});
  const Status status = rules.IndexOf("b").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'a/#', '#'"), std::string::npos) << status.message();
}

TEST(RetentionRules, ImpossibleOnesAreRefused) {
  using Classes = std::vector<RetentionClass>;
  for (const Classes& classes :
       {Classes{{"#", 1us}, {"a", 1us}}, Classes{{"a", 1us}, {"a", 2us}}, Classes{{"a#", 1us}},
        Classes{{"", 1us}}, Classes{{"a", -1us}}, Classes{{"a", 1us, 0, -1us}}}) {
    EXPECT_EQ(RetentionRules::Make(classes).status().code(), Code::kSchema);
  }
}

TEST(RetentionRules, AFilterThatAnEarlierOneTakesEverythingFrom) {
  EXPECT_TRUE(
      CheckReachable({{"a/+", 1us}, {"a/#", 1us}, {"+/#", 1us}, {"$a/#", 1us}, {"#", 1us}}).ok());
  const Status status = CheckReachable({{"a/#", 1us}, {"b", 1us}, {"a/+/c", 1us}});
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_NE(status.message().find("'a/#' takes every topic of 'a/+/c'"), std::string::npos);
}

TEST(RetentionRules, NumbersStayWhenClassesChange) {
  const RetentionRules first = RetentionRules::Make({{"a/#", 1us}, {"b/#", 2us}}).value();
  EXPECT_EQ(first.reserved(), RetentionClassId{3});
  const RetentionRules second = first.With({{"c/#", 3us}, {"b/#", 4us}}).value();
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
  const RetentionRules third = second.With({{"a/#", 9us}}).value();
  EXPECT_EQ(third.ClassOf("a/1"), RetentionClassId{0});
  EXPECT_EQ(third.Find(RetentionClassId{0})->limits.age, 9us);
  EXPECT_EQ(third.ids_end(), RetentionClassId{5});
  EXPECT_EQ(third.ids(), Ids({0, 2, 4, 1}));
}

TEST(RetentionRules, LayoutsBelongToWhatAClassAsksFor) {
  const RetentionClass state{"a/#", 1us, 0, 0us, 0, LayoutKind::kSkipstream};
  const RetentionRules first = RetentionRules::Make({state}).value();
  EXPECT_EQ(first.classes(), std::vector{state});
  EXPECT_FALSE(AreSameClasses({state}, {{"a/#", 1us}}));
  EXPECT_TRUE(first.ChangedSince(RetentionRules::Make({{"a/#", 1us}}).value()).empty())
      << "its topics are the same";
  const RetentionRules second = first.With({{"a/#", 1us}}).value();
  EXPECT_EQ(second.Find(RetentionClassId{0})->limits.layout, std::nullopt);
  const RetentionRules third = first.With({{"b", 1us}}).value();
  EXPECT_EQ(third.Find(RetentionClassId{0})->limits.layout, std::nullopt) << "it is retired";
  const RetentionRules with_rest =
      RetentionRules::Make({{"#", 0us, 0, 0us, 0, LayoutKind::kColumnar}}).value();
  EXPECT_EQ(with_rest.classes().size(), 1U) << "it is not the implicit one";
}

TEST(RetentionRules, WhichClassesTopicsOfAFilterMayBelongTo) {
  const RetentionRules rules =
      RetentionRules::Make({{"a/x/#", 1us}, {"a/#", 1us}, {"+/y", 1us}}).value();
  const auto takers = [&](const std::string& filter) {
    std::vector<RetentionClassId> found;
    for (const RetentionClassId id : rules.ids()) {
      if (rules.MayTake(id, Filter::Parse(filter).value())) found.push_back(id);
    }
    return found;
  };
  EXPECT_EQ(takers("#"), Ids({0, 1, 2, 3}));
  EXPECT_EQ(takers("a/+"), Ids({0, 1})) << "a/# takes the rest";
  EXPECT_EQ(takers("a/x/1"), Ids({0}));
  EXPECT_EQ(takers("b/y"), Ids({2}));
  EXPECT_EQ(takers("b/+"), Ids({2, 3}));
  EXPECT_EQ(takers("$SYS/#"), Ids({3}));
  EXPECT_TRUE(rules.MayTake(RetentionClassId{3}, Filter::Everything()));
  const RetentionRules later = rules.With({{"b/#", 1us}}).value();
  EXPECT_FALSE(later.MayTake(RetentionClassId{1}, Filter::Parse("a/1").value()))
      << "a retired class takes nothing";
}

TEST(RetentionRules, ARetiredClassIsKeptAsLongAsAnyThatHasItsTopicsNow) {
  const RetentionRules first = RetentionRules::Make({{"a/#", 5us, 100, 1us}}).value();
  const auto retired = [&](const std::vector<RetentionClass>& classes) {
    return first.With(classes).value().Find(RetentionClassId{0})->limits;
  };
  EXPECT_EQ(retired({{"a/x", 7us}, {"b", 50us}, {"#", 3us}}), (RetentionClass{"a/#", 7us, 0, 1us}));
  EXPECT_EQ(retired({{"a/x", 7us}, {"#", 30us}}), (RetentionClass{"a/#", 30us, 0, 1us}));
  EXPECT_EQ(retired({{"+/#", 7us}, {"#", 30us}}), (RetentionClass{"a/#", 7us, 0, 1us}));
  EXPECT_EQ(retired({{"a/x", 7us}}), (RetentionClass{"a/#", 0us, 0, 0us}));  // "#" keeps everything
  EXPECT_EQ(retired({}), (RetentionClass{"a/#", 0us, 0, 0us}));
  // A message of the retired class may belong to any of these now, so it stays as long as any of
  // them says.
  EXPECT_EQ(retired({{"a/x", 7us, 0, 0us, 2}, {"#", 0us, 0, 0us, 5}}),
            (RetentionClass{"a/#", 7us, 0, 1us, 5}));
  EXPECT_EQ(retired({{"#", 0us, 0, 0us, 5}}), (RetentionClass{"a/#", 0us, 0, 1us, 5}));
  EXPECT_EQ(retired({{"a/x", 0us, 0, 0us, 2}}), (RetentionClass{"a/#", 0us, 0, 0us, 0}));
  EXPECT_EQ(retired({{"#", 0us, 90, 0us, 5}}), (RetentionClass{"a/#", 0us, 0, 0us, 0}));
}

}  // namespace
}  // namespace topicdb
