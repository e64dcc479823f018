#include "layout/columnar/merge/row_spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "layout/columnar/format/overlapping_pages.h"
#include "test_directory.h"

namespace topicdb::columnar {
namespace {

void AddAll(const std::vector<Rows>& pages, RowSpill* spill) {
  for (const Rows& rows : pages) {
    const auto page = Page::Decode(PlainPage(rows)).value();
    for (std::uint32_t row = 0; row < page->rows(); ++row) {
      ASSERT_TRUE(spill->Add(KeyOf(MergeOrder::kTime, *page, row), *page, row).ok());
    }
  }
}

// Adds all rows as AddAll does, but in one call, which may work on several processors.
void AddAllAtOnce(const std::vector<Rows>& pages, RowSpill* spill) {
  std::vector<RowSpill::PageRows> added;
  for (const Rows& rows : pages) {
    if (rows.empty()) {
      added.emplace_back();
      continue;
    }
    RowSpill::PageRows of_page{Page::Decode(PlainPage(rows)).value(), {}};
    for (std::uint32_t row = 0; row < of_page.page->rows(); ++row) {
      of_page.rows.push_back({KeyOf(MergeOrder::kTime, *of_page.page, row), 0, row});
    }
    added.push_back(std::move(of_page));
  }
  ASSERT_TRUE(spill->Add(added).ok());
}

// Returns all rows in the order in which the partitions give them, with each partition sorted.
// Raises `most_bytes` to the size of the largest partition.
Rows TakeAll(RowSpill* spill, std::size_t* most_bytes) {
  Rows all;
  while (!spill->is_finished()) {
    EXPECT_TRUE(spill->Prepare().ok());
    const std::optional<RowKey> end = spill->End();
    const auto pages = spill->Take().value();
    const std::size_t begin = all.size();
    std::size_t bytes = 0;
    for (const auto& page : pages) {
      bytes += page->memory_bytes();
      for (const Row& row : RowsOf(*page)) {
        const RowKey key{static_cast<std::uint64_t>(row.time), row.serial, row.index};
        EXPECT_TRUE(!end.has_value() || key < *end);
        all.push_back(row);
      }
    }
    std::sort(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), IsBefore);
    *most_bytes = std::max(*most_bytes, bytes);
  }
  return all;
}

TEST(RowSpill, GivesBackWhatItGotInOrder) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(40, 100);
  const std::vector<RowKey> bounds{{2'000, 0, 0}, {2'001, 0, 0}, {9'000, 0, 0}, {20'000, 0, 0}};
  RowSpill spill(directory / "", MergeOrder::kTime, bounds, std::size_t{64} << 20);
  AddAll(pages, &spill);
  std::size_t most_bytes = 0;
  EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
  EXPECT_GT(spill.rows_written(), 0U);
  EXPECT_LE(spill.rows_written(), 40U * 300);
  EXPECT_TRUE(std::filesystem::is_empty(directory / "")) << "its file has no name";
}

TEST(RowSpill, TakesManyPagesSideBySide) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(40, 100);
  const std::vector<RowKey> bounds{{2'000, 0, 0}, {2'001, 0, 0}, {9'000, 0, 0}, {20'000, 0, 0}};
  RowSpill spill(directory / "", MergeOrder::kTime, bounds, std::size_t{64} << 20);
  AddAllAtOnce({pages.begin(), pages.begin() + 30}, &spill);
  AddAllAtOnce({}, &spill);
  AddAllAtOnce({Rows(), pages[30], Rows()}, &spill);
  AddAllAtOnce({pages.begin() + 31, pages.end()}, &spill);
  std::size_t most_bytes = 0;
  EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
  EXPECT_GT(spill.rows_written(), 0U);
}

TEST(RowSpill, WhatIsSmallNeedsNoFile) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(2, 10);
  RowSpill spill(directory / "", MergeOrder::kTime, {{5'000, 0, 0}}, std::size_t{1} << 20);
  AddAll(pages, &spill);
  std::size_t most_bytes = 0;
  EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
  EXPECT_EQ(spill.rows_written(), 0U);
  EXPECT_EQ(spill.bytes_written(), 0U);
}

TEST(RowSpill, KeepsNothingInMemoryOnceAllIsWritten) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(20, 100);
  RowSpill spill(directory / "", MergeOrder::kTime, {{5'000, 0, 0}}, std::size_t{64} << 20);
  AddAllAtOnce(pages, &spill);
  EXPECT_GT(spill.staged_bytes(), 0U);
  ASSERT_TRUE(spill.WriteStaged().ok());
  EXPECT_EQ(spill.staged_bytes(), 0U);
  std::size_t most_bytes = 0;
  EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
}

TEST(RowSpill, ALargePartitionIsDivided) {
  const std::vector<Rows> pages = OverlappingPages(60, 200);
  constexpr std::size_t kBytesMax = 200'000;
  for (const auto add : {AddAll, AddAllAtOnce}) {
    const TestDirectory directory;
    RowSpill spill(directory / "", MergeOrder::kTime, {}, kBytesMax);
    add(pages, &spill);
    std::size_t most_bytes = 0;
    EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
    EXPECT_GT(most_bytes, 0U);
    EXPECT_LE(most_bytes, kBytesMax);
  }
}

TEST(RowSpill, AlsoIfAllHaveOneTimeOrOneRowIsTooLarge) {
  const TestDirectory directory;
  std::vector<Rows> pages = OverlappingPages(20, 50);
  for (Rows& rows : pages) {
    for (Row& row : rows) row.time = 5;
  }
  pages[3][7].value = std::string(100'000, 'l');
  RowSpill spill(directory / "", MergeOrder::kTime, {{5, 0, 0}}, 20'000);
  AddAll(pages, &spill);
  std::size_t most_bytes = 0;
  EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
}

// A salvage may find copies of a message, which have one key.
TEST(RowSpill, RowsOfOneKeyStayTogetherHoweverLargeTheyAre) {
  const RowKey key{5, 1, 0};
  for (const std::vector<RowKey>& bounds : {std::vector<RowKey>{}, std::vector<RowKey>{key}}) {
    const TestDirectory directory;
    const std::string value(10'000, 'v');
    std::vector<Rows> pages(7, {{1, "t", 5, 1, 0, value}});  // a page has a key once
    pages.push_back({{1, "t", 9, 1, 0, value}});
    RowSpill spill(directory / "", MergeOrder::kTime, bounds, 20'000);
    AddAll(pages, &spill);
    Rows got;
    for (std::size_t window = 0; !spill.is_finished() && window < pages.size(); ++window) {
      ASSERT_TRUE(spill.Prepare().ok());
      const auto taken = spill.Take().value();
      for (const auto& page : taken) {
        for (const Row& row : RowsOf(*page)) got.push_back(row);
      }
    }
    EXPECT_TRUE(spill.is_finished()) << "it divides what cannot be divided";
    std::sort(got.begin(), got.end(), IsBefore);
    EXPECT_EQ(got, Sorted(pages));
  }
}

TEST(RowSpill, MoreMayComeWhileWindowsAreTaken) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(2, 10);
  RowSpill spill(directory / "", MergeOrder::kTime, {{5'000, 0, 0}}, std::size_t{1} << 20);
  AddAll({pages[0]}, &spill);
  ASSERT_TRUE(spill.Prepare().ok());
  Rows got;
  const auto taken = spill.Take().value();
  for (const auto& page : taken) {
    for (const Row& row : RowsOf(*page)) got.push_back(row);
  }
  Rows late = pages[1];
  std::erase_if(late, [](const Row& row) { return row.time < 5'000; });
  AddAll({late}, &spill);
  std::sort(got.begin(), got.end(), IsBefore);
  std::size_t most_bytes = 0;
  for (const Row& row : TakeAll(&spill, &most_bytes)) got.push_back(row);
  EXPECT_EQ(got, Sorted({pages[0], late}));
}

TEST(RowSpill, WithoutAPlaceOfItsOwnItUsesThatOfTheSystem) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(3, 100);
  RowSpill spill(directory / "missing", MergeOrder::kTime, {}, std::size_t{1} << 20);
  AddAll(pages, &spill);
  std::size_t most_bytes = 0;
  EXPECT_EQ(TakeAll(&spill, &most_bytes), Sorted(pages));
}

TEST(RowSpill, AndSaysSoIfThereIsNone) {
  const TestDirectory directory;
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ASSERT_EQ(setenv("TMPDIR", (directory / "missing").c_str(), 1), 0);
  RowSpill spill(directory / "missing", MergeOrder::kTime, {}, std::size_t{1} << 20);
  const auto page = Page::Decode(PlainPage(OverlappingPages(1, 100'000).front())).value();
  Status status;
  for (std::uint32_t row = 0; row < page->rows() && status.ok(); ++row) {
    status = spill.Add(KeyOf(MergeOrder::kTime, *page, row), *page, row);
  }
  ASSERT_EQ(before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1), 0);
  EXPECT_EQ(status.code(), Code::kStorage);
  EXPECT_NE(status.message().find("temporary file"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(directory / "missing"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace topicdb::columnar
