#include "layout/columnar/merge/spill_windows.h"

#include <system_error>
#include <utility>

namespace topicdb::columnar {

SpillWindows::SpillWindows(const std::string& directory, MergeOrder order,
                           const std::vector<RowKey>& bounds, std::size_t bytes_max)
    : order_(order), spill_(directory, order, bounds, bytes_max) {}

void SpillWindows::ReadAhead(std::size_t bytes_max) {
  if (is_finished() || spill_.NextBytesMax() + spill_.staged_bytes() > bytes_max) return;
  ahead_end_ = spill_.End();
  ahead_rows_written_ = spill_.rows_written();
  ahead_bytes_written_ = spill_.bytes_written();
  ahead_ = StartRead();
}

std::future<Result<SpillWindows::Window>> SpillWindows::StartRead() {
  try {
    return std::async(std::launch::async, [this] { return Read(); });
  } catch (const std::system_error&) {
    return {};  // the system has no more threads: Take reads the window
  }
}

Result<SpillWindows::Window> SpillWindows::Take() { return ahead_.valid() ? ahead_.get() : Read(); }

Result<SpillWindows::Window> SpillWindows::Read() {
  TOPICDB_RETURN_IF_ERROR(spill_.Prepare());
  Window window;
  window.end = spill_.End();
  TOPICDB_ASSIGN_OR_RETURN(window.pages, spill_.Take());
  for (std::uint32_t slot = 0; slot < window.pages.size(); ++slot) {
    const Page& page = *window.pages[slot];
    for (std::uint32_t row = 0; row < page.rows(); ++row) {
      window.rows.push_back({KeyOf(order_, page, row), slot, row});
    }
  }
  SortRows(&window.rows);
  return window;
}

std::uint64_t SpillWindows::rows_written() const {
  return ahead_.valid() ? ahead_rows_written_ : spill_.rows_written();
}

std::uint64_t SpillWindows::bytes_written() const {
  return ahead_.valid() ? ahead_bytes_written_ : spill_.bytes_written();
}

}  // namespace topicdb::columnar
