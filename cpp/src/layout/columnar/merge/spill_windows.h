// Hands out the rows of a RowSpill as windows of keys, one after the other, each sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layout/columnar/format/page.h"
#include "layout/columnar/merge/row_sort.h"
#include "layout/columnar/merge/row_spill.h"
#include "topicdb/status.h"

namespace topicdb::columnar {

// Takes the windows of a spill one after the other. Can read the next window in a thread of its own
// while the merge hands out the window before. A merge owns it. At most one thread at a time may
// use it. The destructor waits for its own thread.
class SpillWindows {
 public:
  // The rows of one window, and the pages that they are in.
  struct Window {
    std::vector<std::shared_ptr<const Page>> pages;
    std::vector<MergedRow> rows;  // sorted; the slot of a row is the number of its page here
    std::optional<RowKey> end;    // where the next window begins; absent: this is the last one
  };

  // Takes the arguments of RowSpill.
  SpillWindows(const std::string& directory, MergeOrder order, const std::vector<RowKey>& bounds,
               std::size_t bytes_max);

  // Adds rows to the spill. Returns kStorage.
  // REQUIRES: no window is being read ahead; no row is before the end of a window that was taken
  Status Add(std::span<const RowSpill::PageRows> pages) { return spill_.Add(pages); }
  // Returns true if all windows were taken.
  bool is_finished() const { return !ahead_.valid() && spill_.is_finished(); }
  // Returns an upper bound of the next window's end: all rows of the window are before it. Returns
  // nothing if the window may be the last one.
  // REQUIRES (EndMax, Take): !is_finished()
  std::optional<RowKey> EndMax() const { return ahead_.valid() ? ahead_end_ : spill_.End(); }
  // Returns where the next `count` windows end, or nothing if there are no others behind them.
  // REQUIRES (EndOf, NextBytesMax): !is_finished(), and no window is being read ahead
  std::optional<RowKey> EndOf(std::size_t count) const { return spill_.EndOf(count); }
  // Returns an upper bound of the memory that the next window takes, if no more rows are added.
  std::size_t NextBytesMax() const { return spill_.NextBytesMax(); }
  // Says that no more rows will be added. Then the spill keeps none in memory. Returns kStorage.
  // REQUIRES: no window is being read ahead
  Status EndRows() { return spill_.WriteStaged(); }
  // Begins to read the next window, unless there is none, or the window and the rows that wait in
  // memory may take more than `bytes_max`. The caller must not add rows between ReadAhead and Take.
  void ReadAhead(std::size_t bytes_max);
  // Returns the next window. The caller must have added all of its rows. Returns kStorage.
  Result<Window> Take();

  // As in RowSpill. While a window is read ahead, they return what was written before that.
  std::uint64_t rows_written() const;
  std::uint64_t bytes_written() const;

 private:
  // Reads the next window in a new thread. Returns no future if there can be no more threads.
  std::future<Result<Window>> StartRead();
  // Takes the next window from the spill, and sorts its rows.
  Result<Window> Read();

  const MergeOrder order_;
  RowSpill spill_;  // while ahead_ is valid, only its thread uses it
  // The state of spill_ when that thread began.
  std::optional<RowKey> ahead_end_;
  std::uint64_t ahead_rows_written_ = 0;
  std::uint64_t ahead_bytes_written_ = 0;
  // The last member, so that its destructor waits for the thread before the others are destroyed.
  std::future<Result<Window>> ahead_;
};

}  // namespace topicdb::columnar
