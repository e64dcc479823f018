#include "layout/columnar/merge/spill_windows.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "layout/columnar/format/overlapping_pages.h"
#include "test_directory.h"

namespace topicdb::columnar {
namespace {

constexpr std::size_t kUnlimited = std::size_t{1} << 30;
const std::vector<RowKey> kBounds{{2'000, 0, 0}, {2'001, 0, 0}, {9'000, 0, 0}, {20'000, 0, 0}};

void AddAll(const std::vector<Rows>& pages, SpillWindows* windows) {
  std::vector<RowSpill::PageRows> added;
  for (const Rows& rows : pages) {
    RowSpill::PageRows of_page{Page::Decode(PlainPage(rows)).value(), {}};
    for (std::uint32_t row = 0; row < of_page.page->rows(); ++row) {
      of_page.rows.push_back({KeyOf(MergeOrder::kTime, *of_page.page, row), 0, row});
    }
    added.push_back(std::move(of_page));
  }
  ASSERT_TRUE(windows->Add(added).ok());
}

// Returns the rows of all windows as they come. Calls `before` before it takes each window.
template <typename Before>
Rows TakeAll(SpillWindows* windows, const Before& before) {
  Rows all;
  while (!windows->is_finished()) {
    before();
    const std::optional<RowKey> end_max = windows->EndMax();
    const SpillWindows::Window window = windows->Take().value();
    EXPECT_EQ(window.end.has_value(), !windows->is_finished());
    EXPECT_TRUE(!end_max.has_value() || (window.end.has_value() && *window.end <= *end_max));
    for (const MergedRow& row : window.rows) {
      EXPECT_TRUE(!window.end.has_value() || row.key < *window.end);
      all.push_back(RowOf(*window.pages[row.slot], row.row));
    }
  }
  return all;
}

TEST(SpillWindows, GiveAllRowsInOrderWhetherReadAheadOrNot) {
  const std::vector<Rows> pages = OverlappingPages(40, 100);
  for (const std::size_t ahead_bytes_max : {std::size_t{0}, std::size_t{500'000}, kUnlimited}) {
    const TestDirectory directory;
    SpillWindows windows(directory / "", MergeOrder::kTime, kBounds, std::size_t{64} << 20);
    AddAll(pages, &windows);
    EXPECT_EQ(TakeAll(&windows, [&] { windows.ReadAhead(ahead_bytes_max); }), Sorted(pages));
    EXPECT_TRUE(windows.is_finished());
  }
}

TEST(SpillWindows, AWindowThatIsTooLargeIsDividedWhileReadAhead) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(60, 200);
  SpillWindows windows(directory / "", MergeOrder::kTime, {}, 200'000);
  AddAll(pages, &windows);
  std::size_t taken = 0;
  const auto before = [&] {
    windows.ReadAhead(kUnlimited);
    ++taken;
  };
  EXPECT_EQ(TakeAll(&windows, before), Sorted(pages));
  EXPECT_GT(taken, 10U);
}

TEST(SpillWindows, SaysWhatWasWrittenWhileItReadsAhead) {
  const TestDirectory directory;
  SpillWindows windows(directory / "", MergeOrder::kTime, {}, 200'000);
  AddAll(OverlappingPages(60, 200), &windows);
  const std::uint64_t rows = windows.rows_written();
  const std::uint64_t bytes = windows.bytes_written();
  EXPECT_GT(rows, 0U);
  windows.ReadAhead(kUnlimited);
  EXPECT_EQ(windows.rows_written(), rows);
  EXPECT_EQ(windows.bytes_written(), bytes);
  ASSERT_TRUE(windows.Take().ok());
  EXPECT_GT(windows.rows_written(), rows) << "dividing the window wrote its rows again";
}

TEST(SpillWindows, MoreMayComeOnceWhatWasReadAheadIsTaken) {
  const TestDirectory directory;
  const std::vector<Rows> pages = OverlappingPages(2, 10);
  SpillWindows windows(directory / "", MergeOrder::kTime, {{5'000, 0, 0}}, kUnlimited);
  AddAll({pages[0]}, &windows);
  windows.ReadAhead(kUnlimited);
  const SpillWindows::Window first = windows.Take().value();
  Rows got;
  for (const MergedRow& row : first.rows) got.push_back(RowOf(*first.pages[row.slot], row.row));
  Rows late = pages[1];
  std::erase_if(late, [](const Row& row) { return row.time < 5'000; });
  AddAll({late}, &windows);
  const Rows rest = TakeAll(&windows, [] {});
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, Sorted({pages[0], late}));
}

TEST(SpillWindows, MayEndWhileItReadsAhead) {
  const TestDirectory directory;
  SpillWindows windows(directory / "", MergeOrder::kTime, kBounds, std::size_t{64} << 20);
  AddAll(OverlappingPages(40, 100), &windows);
  windows.ReadAhead(kUnlimited);
}

}  // namespace
}  // namespace topicdb::columnar
