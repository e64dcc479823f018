#include "subscribe/log_page.h"

#include <gtest/gtest.h>

#include <map>

#include "subscribe/log_parts.h"

namespace topicdb {
namespace {

// Five messages of three commits.
LogSpan Span() {
  return SpanOf(At(2), At(6),
                {{At(2, 0), "a/1", 10, "first"},
                 {At(2, 1), "b", 40, "second"},
                 {At(2, 5), "a/2", 30, "third"},
                 {At(4, 0), "a/1", 20, "fourth"},
                 {At(5, 3), "c", 50, "fifth"}});
}

TEST(LogRows, FindTheFirstRowThatIsNotBeforeAPlace) {
  const SharedLogRows rows = Span().rows;
  EXPECT_EQ(rows->RowAt({}), 0U);
  EXPECT_EQ(rows->RowAt(At(2, 0)), 0U);
  EXPECT_EQ(rows->RowAt(At(2, 2)), 2U) << "it may lie between the messages of a commit";
  EXPECT_EQ(rows->RowAt(At(2, 5)), 2U);
  EXPECT_EQ(rows->RowAt(At(3, 0)), 3U);
  EXPECT_EQ(rows->RowAt(At(5, 3)), 4U);
  EXPECT_EQ(rows->RowAt(At(5, 4)), rows->size());
}

TEST(LogPage, HoldsThePlacesOfItsSpan) {
  const LogPage page(SetOf({InterestIn(1, {"#"})}), Span());
  EXPECT_FALSE(page.Holds(At(1, 9)));
  EXPECT_TRUE(page.Holds(At(2, 0)));
  EXPECT_TRUE(page.Holds(At(5, 99)));
  EXPECT_FALSE(page.Holds(At(6, 0))) << "the next page begins there";
}

// What a generation without a log has there, others may want.
TEST(LogPage, ThatPassesAGenerationWithoutALogIsForThoseThatItWasReadFor) {
  const SharedInterest all = InterestIn(1, {"#"});
  const SharedInterest part = InterestIn(2, {"a/#"});
  LogSpan span = Span();
  EXPECT_TRUE(LogPage(SetOf({all}), span).Covers(*part));
  span.passed_unlogged = true;
  EXPECT_FALSE(LogPage(SetOf({all}), span).Covers(*part));
  EXPECT_TRUE(LogPage(SetOf({all}), span).Covers(*all));
  EXPECT_TRUE(LogPage(SetOf({all, part}), span).Covers(*part));
}

TEST(LogPage, OfOneInterestGivesTheRowsThatWereReadAndNoCopy) {
  const SharedInterest interest = InterestIn(1, {"#"});
  LogPage page(SetOf({interest}), Span());
  EXPECT_EQ(page.RowsOf(*interest), page.span().rows);
  EXPECT_EQ(page.rows().at(1), page.span().rows);
  EXPECT_EQ(page.bytes(), sizeof(LogPage) + page.span().rows->batch->bytes() +
                              page.span().rows->size() * sizeof(CommitPlace));
}

TEST(LogPage, GivesEachInterestItsRowsWithTheirPlaces) {
  const SharedInterest a = InterestIn(1, {"a/+"});
  const SharedInterest b_and_c = InterestIn(2, {"b", "c"});
  const SharedInterest nothing = InterestIn(3, {"d"});
  LogPage page(SetOf({a, b_and_c, nothing}), Span());
  ASSERT_EQ(page.rows().size(), 2U) << "of those that find something";
  const SharedLogRows rows = page.RowsOf(*a);
  EXPECT_EQ(PlacesOf(rows), (std::vector<CommitPlace>{At(2, 0), At(2, 5), At(4, 0)}));
  EXPECT_EQ(rows->batch->topic(1), "a/2");
  EXPECT_EQ(rows->batch->timestamp(1), 30);
  EXPECT_EQ(rows->batch->value(1), "third");
  EXPECT_EQ(PlacesOf(page.RowsOf(*b_and_c)), (std::vector<CommitPlace>{At(2, 1), At(5, 3)}));
  EXPECT_EQ(page.RowsOf(*nothing), nullptr);
  EXPECT_EQ(page.RowsOf(*a), page.rows().at(1)) << "equal interests share them";
  const std::size_t of_copies = rows->batch->bytes() + page.rows().at(2)->batch->bytes();
  EXPECT_GE(page.bytes(), page.span().rows->batch->bytes() + of_copies);
}

TEST(LogPage, GivesNothingOlderThanAnInterestWants) {
  const SharedInterest all = InterestIn(1, {"#"}, 10);
  const SharedInterest late = InterestIn(2, {"#"}, 40);
  LogPage uniform(SetOf({all, late}), Span());
  EXPECT_EQ(uniform.RowsOf(*all)->size(), 5U);
  EXPECT_EQ(PlacesOf(uniform.RowsOf(*late)), (std::vector<CommitPlace>{At(2, 1), At(5, 3)}));
  const SharedInterest late_a = InterestIn(3, {"a/+"}, 20);
  LogPage mixed(SetOf({all, late_a}), Span());
  EXPECT_EQ(PlacesOf(mixed.RowsOf(*late_a)), (std::vector<CommitPlace>{At(2, 5), At(4, 0)}));
  LogPage alone(SetOf({late_a}), SpanOf(At(1), At(9), {{At(3), "a/1", 20}, {At(4), "a/1", 21}}));
  EXPECT_EQ(alone.RowsOf(*late_a)->size(), 2U);
}

TEST(LogPage, ServesOthersThatItCovers) {
  const SharedInterest all = InterestIn(1, {"#"});
  LogPage page(SetOf({all, InterestIn(2, {"b"})}), Span());
  const SharedInterest a = InterestIn(7, {"a/1"}, 15);
  ASSERT_TRUE(page.Covers(*a));
  const std::size_t bytes = page.bytes();
  const SharedLogRows rows = page.RowsOf(*a);
  EXPECT_EQ(PlacesOf(rows), std::vector<CommitPlace>{At(4, 0)});
  EXPECT_EQ(page.RowsOf(*a), rows) << "it keeps what it has found";
  EXPECT_EQ(page.RowsOf(*InterestIn(8, {"d"})), nullptr);
  EXPECT_EQ(page.RowsOf(*InterestIn(9, {"#"})), page.span().rows);
  EXPECT_EQ(page.rows().size(), 2U) << "they were not read for";
  EXPECT_EQ(page.bytes(), bytes);
  EXPECT_FALSE(page.Covers(*InterestIn(10, {"$x"})));
}

TEST(LogPage, OfPartsGivesEachRowToOne) {
  std::vector<SharedInterest> parts;
  for (std::uint32_t part = 0; part < 3; ++part) {
    Wanted wanted = *InterestIn(0, {"#"});
    wanted.part = part;
    wanted.parts = 3;
    parts.push_back(std::make_shared<const Interest>(part + 1, wanted));
  }
  std::vector<LogRow> rows;
  for (std::uint32_t i = 0; i < 100; ++i) rows.push_back({At(1, i), "t/" + std::to_string(i % 20)});
  LogPage page(SetOf(parts), SpanOf(At(1), At(2), rows));
  std::map<CommitPlace, std::uint64_t> part_of;
  for (const SharedInterest& part : parts) {
    for (const CommitPlace& place : PlacesOf(page.RowsOf(*part))) {
      EXPECT_TRUE(part_of.emplace(place, part->number).second) << place.index;
    }
  }
  ASSERT_EQ(part_of.size(), rows.size());
  for (std::uint32_t i = 20; i < 100; ++i) {
    EXPECT_EQ(part_of[At(1, i)], part_of[At(1, i - 20)]) << "a topic stays in its part";
  }
}

TEST(LogPage, WithoutRowsGivesNone) {
  const SharedInterest a = InterestIn(1, {"a"});
  LogPage page(SetOf({a, InterestIn(2, {"b"})}), SpanOf(At(4), At(9), {}));
  EXPECT_TRUE(page.rows().empty());
  EXPECT_EQ(page.RowsOf(*a), nullptr);
  EXPECT_EQ(page.RowsOf(*InterestIn(3, {"a"})), nullptr);
  EXPECT_EQ(page.bytes(), sizeof(LogPage));
}

}  // namespace
}  // namespace topicdb
