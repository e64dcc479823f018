#include "layout/columnar/block/topic_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "layout/columnar/format/page_examples.h"

namespace topicdb::columnar {
namespace {

PageToSort Plain(const Rows& rows, const DeletedRows& deleted = {}) {
  return {Page::Decode(PlainPage(rows)).value(), deleted};
}

Rows RowsOf(const SortedRows& sorted) {
  Rows rows;
  for (const PackedRow& row : sorted.rows) {
    rows.push_back({row.stream.value(), std::string(row.topic), row.time, row.serial.value(),
                    row.index, std::string(row.value)});
  }
  return rows;
}

TEST(TopicSort, OfNoPagesThereAreNoRows) {
  const SortedRows sorted = SortByTopic({});
  EXPECT_TRUE(sorted.rows.empty());
  EXPECT_TRUE(sorted.origins.empty());
}

TEST(TopicSort, SortsByStreamTopicTimeSerialAndIndex) {
  const std::vector<PageToSort> pages{
      Plain({{2, "a", 1, 1, 0, "f"}, {1, "b", 9, 1, 1, "e"}, {1, "a", 5, 1, 2, "b"}}),
      Plain({{1, "a", 5, 2, 3, "d"}, {1, "a", 5, 2, 1, "c"}, {1, "a", 4, 2, 4, "a"}})};
  std::string values;
  for (const PackedRow& row : SortByTopic(pages).rows) values += row.value;
  EXPECT_EQ(values, "abcdef");
}

// A topic that has come into another stream is there twice.
TEST(TopicSort, ATopicOfTwoStreamsIsTwoTopics) {
  const std::vector<PageToSort> pages{
      Plain({{2, "t", 1, 1, 0, "second"}, {1, "t", 9, 1, 1, "first"}})};
  const Rows rows = RowsOf(SortByTopic(pages));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].value, "first");
  EXPECT_EQ(rows[1].value, "second");
}

TEST(TopicSort, LeavesOutDeletedRowsAndTellsWhereTheOthersWere) {
  const std::vector<PageToSort> pages{
      Plain({{1, "b", 1, 1, 0, ""}, {1, "a", 2, 1, 1, ""}, {1, "b", 3, 1, 2, ""}}, {0}),
      Plain({{1, "a", 1, 2, 0, ""}, {1, "c", 1, 2, 1, ""}}, {0, 1}),
      Plain({{1, "b", 2, 3, 0, ""}})};
  const SortedRows sorted = SortByTopic(pages);
  EXPECT_EQ(sorted.origins, (std::vector<RowOrigin>{{0, 1}, {2, 0}, {0, 2}}));
  EXPECT_EQ(RowsOf(sorted),
            (Rows{{1, "a", 2, 1, 1, ""}, {1, "b", 2, 3, 0, ""}, {1, "b", 3, 1, 2, ""}}));
}

TEST(TopicSort, RowsPointIntoTheirPages) {
  const std::vector<PageToSort> pages{Plain({{1, "t", 1, 1, 0, "a value"}})};
  const SortedRows sorted = SortByTopic(pages);
  EXPECT_EQ(sorted.rows[0].value.data(), pages[0].page->value(0).data());
  EXPECT_EQ(sorted.rows[0].topic.data(), pages[0].page->topic(0).data());
}

TEST(TopicSort, RandomPagesOfBothForms) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<PageToSort> pages;
    Rows expected;
    for (std::uint64_t serial = 1; serial < 8; ++serial) {
      Rows rows;
      for (std::uint32_t i = 0; i < 1 + random() % 60; ++i) {
        rows.push_back({static_cast<std::uint32_t>(1 + random() % 3),
                        "t/" + std::to_string(random() % 9),
                        static_cast<std::int64_t>(random() % 20), serial, i, std::to_string(i)});
      }
      const bool is_packed = serial % 2 == 0;
      if (is_packed) std::sort(rows.begin(), rows.end());
      DeletedRows deleted;
      for (std::uint32_t row = 0; row < rows.size(); ++row) {
        if (random() % 4 == 0) {
          deleted.push_back(row);
        } else {
          expected.push_back(rows[row]);
        }
      }
      const std::string bytes = is_packed ? PackedPage(rows, PageCodec::kLz4) : PlainPage(rows);
      pages.push_back({Page::Decode(bytes).value(), deleted});
    }
    std::sort(expected.begin(), expected.end());
    const SortedRows sorted = SortByTopic(pages);
    EXPECT_EQ(RowsOf(sorted), expected);
    ASSERT_EQ(sorted.origins.size(), sorted.rows.size());
    for (std::size_t i = 0; i < sorted.origins.size(); ++i) {
      const RowOrigin& origin = sorted.origins[i];
      EXPECT_EQ(RowOf(*pages[origin.page].page, origin.row), expected[i]);
    }
  }
}

}  // namespace
}  // namespace topicdb::columnar
