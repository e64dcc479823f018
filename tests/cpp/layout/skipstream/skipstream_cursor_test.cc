#include "layout/skipstream/skipstream_cursor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/skipstream/skipstream_slab.h"

namespace topicdb::skipstream {
namespace {

using Values = std::vector<std::string>;

Values ReadFrom(RowCursor& cursor, const std::string& suffix = "") {
  Values values;
  for (cursor.Seek(suffix); cursor.Valid(); cursor.Next()) {
    values.emplace_back(cursor.value().value);
  }
  EXPECT_TRUE(cursor.status().ok()) << cursor.status().message();
  return values;
}

Values Read(SkipstreamSlab& slab, const ReadRequest& request) {
  RowCursor cursor(slab.source(), request, 8);
  return ReadFrom(cursor);
}

TEST(RowCursor, GivesRowsInTheOrderOfTimesAndThenOfWords) {
  SkipstreamSlab slab;
  slab.Put("b", "x", 2, 1, "third");
  slab.Put("a", "y", 2, 2, "second");
  slab.Put("z", "z", 1, 3, "first");
  EXPECT_EQ(Read(slab, SkipstreamSlab::Request("#")), (Values{"first", "second", "third"}));
}

TEST(RowCursor, BeginsAtASuffixButNotBeforeTheRange) {
  SkipstreamSlab slab;
  for (int time = 1; time <= 5; ++time) slab.Put("a", "b", time, 1, std::to_string(time));
  RowCursor cursor(slab.source(), SkipstreamSlab::Request("#", {2, 5}), 8);
  EXPECT_EQ(ReadFrom(cursor, slab.Suffix("a", "b", 3)), (Values{"3", "4"}));
  EXPECT_EQ(ReadFrom(cursor, slab.Suffix("a", "c", 3)), (Values{"4"}));
  EXPECT_EQ(ReadFrom(cursor), (Values{"2", "3", "4"}));
}

TEST(RowCursor, ExaminesWithTheIndexOnlyWhatHasTheWords) {
  SkipstreamSlab slab;
  for (int time = 0; time < 100; ++time) {
    slab.Put(time % 10 == 0 ? "rare" : "often", std::to_string(time % 4), time, 1,
             std::to_string(time));
  }
  RowCursor by_index(slab.source(), SkipstreamSlab::Request("rare/2"), 8);
  EXPECT_EQ(ReadFrom(by_index), (Values{"10", "30", "50", "70", "90"}));
  EXPECT_EQ(by_index.examined(), 5U);
  ReadRequest either = SkipstreamSlab::Request("rare/2");
  either.or_filters = {Filter::Parse("often/3").value()};
  RowCursor by_rows(slab.source(), either, 8);
  EXPECT_EQ(ReadFrom(by_rows).size(), 30U);
  EXPECT_EQ(by_rows.examined(), 100U) << "what matches one of several is in no index";
}

TEST(RowCursor, LeavesOutCommitsOutsideItsRange) {
  SkipstreamSlab slab;
  for (int i = 1; i <= 5; ++i) {
    slab.Put("a", "x", i, static_cast<std::uint64_t>(i), std::to_string(i));
  }
  ReadRequest request = SkipstreamSlab::Request("#");
  request.serial_min = Serial{2};
  EXPECT_EQ(Read(slab, request), (Values{"2", "3", "4", "5"}));
  request.serial_max = Serial{4};
  EXPECT_EQ(Read(slab, request), (Values{"2", "3", "4"}));
  request.serial_min = Serial{6};
  EXPECT_EQ(Read(slab, request), Values());
}

TEST(RowCursor, LeavesOutWhatIsMaskedAndWhatIsLater) {
  SkipstreamSlab slab;
  slab.Put("a", "x", 1, 1, "early");
  slab.Put("a", "x", 2, 2, "masked");
  slab.Put("b", "x", 2, 2, "of another topic");
  slab.Put("a", "x", 3, 3, "behind the mask");
  slab.Put("a", "x", 4, 4, "too late");
  ReadRequest request = SkipstreamSlab::Request("#");
  request.serial_max = Serial{3};
  request.masks = {{Filter::Parse("a/#").value(), {}, Serial{2}, Serial{2}}};
  EXPECT_EQ(Read(slab, request), (Values{"early", "of another topic", "behind the mask"}));
  request.masks = {{Filter::Parse("a/#").value(), {2, 3}, Serial{9}}};
  EXPECT_EQ(Read(slab, request), (Values{"early", "of another topic", "behind the mask"}));
}

TEST(RowCursor, AFilterOfOtherLevelsMatchesNothing) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 1, 1, "value");
  EXPECT_EQ(Read(slab, SkipstreamSlab::Request("a/b/c")), Values());
  EXPECT_EQ(Read(slab, SkipstreamSlab::Request("a")), Values());
}

TEST(RowCursor, AnIndexEntryWithoutItsMessageIsCorruption) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 1, 1, "lost");
  slab.Put("a", "b", 2, 1, "kept");
  ASSERT_TRUE(slab.db().Delete({}, slab.Key("a", "b", 1)).ok());
  RowCursor cursor(slab.source(), SkipstreamSlab::Request("a/+"), 8);
  cursor.Seek("");
  EXPECT_FALSE(cursor.Valid());
  EXPECT_EQ(cursor.status().code(), Code::kCorruption);
  EXPECT_EQ(Read(slab, SkipstreamSlab::Request("#")), Values{"kept"}) << "it asks no index";
}

TEST(IsEmptyRange, OfADatabaseWithoutTimestampsAllMessagesAreAtZero) {
  EXPECT_FALSE(IsEmptyRange({}, 8));
  EXPECT_FALSE(IsEmptyRange({3, 4}, 8));
  EXPECT_TRUE(IsEmptyRange({4, 4}, 8));
  EXPECT_TRUE(IsEmptyRange({5, 4}, 8));
  EXPECT_FALSE(IsEmptyRange({}, 0));
  EXPECT_FALSE(IsEmptyRange({0, 1}, 0));
  EXPECT_TRUE(IsEmptyRange({1, {}}, 0));
  EXPECT_TRUE(IsEmptyRange({{}, 0}, 0));
}

}  // namespace
}  // namespace topicdb::skipstream
