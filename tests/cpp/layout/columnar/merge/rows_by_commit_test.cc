#include "layout/columnar/merge/rows_by_commit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "layout/columnar/format/page_examples.h"
#include "test_directory.h"

namespace topicdb::columnar {
namespace {

struct Given {
  Serial serial;
  std::uint32_t index;
  std::string value;
  bool is_stray;
  auto operator<=>(const Given&) const = default;
};

// Adds pages whose rows are of commits from a wide range. Every third page comes again as a stray
// one, with other values. Of two rows for the same place, the one that is not stray must be given.
TEST(RowsByCommit, GivesEachRowOnceInTheOrderOfCommitsWhateverTheMemory) {
  const TestDirectory directory;
  for (const std::size_t memory : {std::size_t{1} << 30, std::size_t{20'000}}) {
    std::mt19937_64 random(1);
    RowsByCommit rows(directory / ".", memory);
    std::vector<Given> expected;
    std::vector<Given> given;
    const RowsByCommit::Take take = [&](const FoundRow& row) {
      EXPECT_EQ(row.topic, "t");
      EXPECT_EQ(row.time, static_cast<std::int64_t>(row.serial.value()) * 10);
      given.push_back({row.serial, row.index, std::string(row.value), row.is_stray});
      return Status::Ok();
    };
    for (std::uint64_t number = 0; number < 40; ++number) {
      Rows known;
      Rows stray;
      for (std::uint64_t i = 0; i < 50; ++i) {
        const std::uint64_t serial = number + 1 + i * 4;
        const auto index = static_cast<std::uint32_t>(number);
        Row row{1, "t", 0, serial, index, std::to_string(random())};
        known.push_back(row);
        expected.push_back({Serial{serial}, index, row.value, false});
        row.value = "stray";
        if (number % 3 == 0) stray.push_back(row);
      }
      for (const auto& [page_rows, is_stray] : {std::pair(known, false), std::pair(stray, true)}) {
        if (page_rows.empty()) continue;
        const std::shared_ptr<const Page> page = Page::Decode(PlainPage(page_rows)).value();
        rows.AddPage(page);
        for (std::uint32_t row = 0; row < page->rows(); ++row) {
          const Serial serial = page->serial(row);
          const auto time = static_cast<std::int64_t>(serial.value()) * 10;
          rows.AddRow(row, serial, time, is_stray);
        }
      }
      ASSERT_TRUE(rows.TakeBefore(Serial{number + 2}, take).ok());
    }
    ASSERT_TRUE(rows.TakeRest(take).ok());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(given, expected);
  }
}

TEST(RowsByCommit, AStrayRowIsGivenIfThereIsNoOther) {
  const TestDirectory directory;
  RowsByCommit rows(directory / ".", 1);
  const std::shared_ptr<const Page> page =
      Page::Decode(PlainPage({{1, "t", 5, 7, 0, "a"}, {1, "t", 6, 9, 0, "b"}})).value();
  rows.AddPage(page);
  rows.AddRow(0, Serial{7}, 5, true);
  rows.AddRow(1, Serial{9}, 6, true);
  std::vector<Given> given;
  const auto take = [&](const FoundRow& row) {
    given.push_back({row.serial, row.index, std::string(row.value), row.is_stray});
    return Status::Ok();
  };
  ASSERT_TRUE(rows.TakeBefore(Serial{8}, take).ok());
  EXPECT_EQ(given, (std::vector<Given>{{Serial{7}, 0, "a", true}}));
  ASSERT_TRUE(rows.TakeRest(take).ok());
  EXPECT_EQ(given, (std::vector<Given>{{Serial{7}, 0, "a", true}, {Serial{9}, 0, "b", true}}));
}

TEST(RowsByCommit, WhatTheTakerReturnsEndsIt) {
  const TestDirectory directory;
  RowsByCommit rows(directory / ".", 1);
  rows.AddPage(Page::Decode(PlainPage({{1, "t", 5, 7, 0, "a"}})).value());
  rows.AddRow(0, Serial{7}, 5, false);
  const Status status = rows.TakeRest([](const FoundRow&) { return Interrupted(); });
  EXPECT_EQ(status.code(), Code::kInterrupted);
}

}  // namespace
}  // namespace topicdb::columnar
