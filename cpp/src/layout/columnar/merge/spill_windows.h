// The rows of a RowSpill as windows of keys, each sorted, one after the other.
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

// Reads the next window in a thread of its own while its user gives out the one before, if it is
// asked to. Owned by one merge, and used by one thread at a time; its end waits for that thread.
class SpillWindows {
 public:
  struct Window {
    std::vector<std::shared_ptr<const Page>> pages;
    std::vector<MergedRow> rows;  // sorted; the slot of a row is the number of its page here
    std::optional<RowKey> end;    // where the next window begins; absent: this is the last one
  };

  // As those of RowSpill.
  SpillWindows(const std::string& directory, MergeOrder order, const std::vector<RowKey>& bounds,
               std::size_t bytes_max);

  // kStorage, as Take. REQUIRES: no window is read ahead, and no row is before those taken
  Status Add(std::span<const RowSpill::PageRows> pages) { return spill_.Add(pages); }
  // Behind the last window nothing follows.
  bool is_finished() const { return !ahead_.valid() && spill_.is_finished(); }
  // No row of the next window is at or behind this key, but the window may end before it; absent:
  // it may be the last one. REQUIRES: !is_finished(), as Take
  std::optional<RowKey> EndMax() const { return ahead_.valid() ? ahead_end_ : spill_.End(); }
  // Begins to read the next window, unless there is none or it would take more than bytes_max. From
  // now on, until Take, nothing may be added.
  void ReadAhead(std::size_t bytes_max);
  // The next window. All of its rows were added.
  Result<Window> Take();

  std::uint64_t rows_written() const;
  std::uint64_t bytes_written() const;

 private:
  // Reads the next window in a new thread. Returns no future if there can be no more threads.
  std::future<Result<Window>> StartRead();
  Result<Window> Read();

  const MergeOrder order_;
  RowSpill spill_;  // while ahead_ is valid, only its thread uses it
  // What was true of spill_ when that thread began.
  std::optional<RowKey> ahead_end_;
  std::uint64_t ahead_rows_written_ = 0;
  std::uint64_t ahead_bytes_written_ = 0;
  std::future<Result<Window>> ahead_;  // last: it waits for its thread before the rest goes
};

}  // namespace topicdb::columnar
