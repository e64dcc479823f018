// The rows that a request wants, from all pages of a slab, in one order.
//
// Blocks are taken in the order of their first key, and of those the pages that may hold wanted
// rows. A page is loaded when the sweep comes to its first key, together with the pages that
// overlap it, and the wanted rows of those are sorted: a run. Runs are merged by a heap. In data
// that came in the order of time there is one run at a time; where late data overlap, there are as
// many as overlap.
//
// Memory is bounded whatever overlaps: when the pages held exceed the bound, the rest of the merge
// goes through windows of keys. The pages that begin in a window are loaded; of them, rows of later
// windows, and what does not fit, wait in a RowSpill. When all are loaded, the rows of the window
// are there, and are merged. So each page is loaded once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/merge/row_sort.h"
#include "layout/columnar/merge/row_spill.h"
#include "layout/columnar/merge/spill_windows.h"
#include "layout/columnar/select/row_selector.h"
#include "layout/columnar/select/topic_selector.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Not thread-safe.
class PageMerge {
 public:
  // after: only rows behind this key. serial_min: only of this commit and later ones.
  PageMerge(const RocksSource& source, const ReadRequest& request, MergeOrder order,
            std::optional<RowKey> after, std::uint64_t serial_min = 0);

  enum class State { kReady, kExhausted, kPaused };
  // Sees to it that the next rows are there; kPaused after some `examined_max` rows. kCorruption.
  Result<State> Prepare(std::size_t examined_max);

  // All that follow REQUIRE that Prepare has just given kReady.

  // Rows in order, at least one; those behind them are found by the next Prepare.
  std::span<const MergedRow> Ready();
  const Page& page(const MergedRow& row) const { return *slots_[row.slot].page; }
  const std::shared_ptr<const Page>& shared_page(const MergedRow& row) const {
    return slots_[row.slot].page;
  }
  // Has the processor fetch what lies some rows behind rows[index]: neighbours in the order lie far
  // from each other in memory, and to wait for each of them would take the longest.
  void FetchAhead(std::span<const MergedRow> rows, std::size_t index) const {
    if (index + 2 * kFetchRows < rows.size()) {
      const MergedRow& later = rows[index + 2 * kFetchRows];
      page(later).PrefetchRow(later.row);
    }
    if (index + kFetchRows < rows.size()) {
      const MergedRow& later = rows[index + kFetchRows];
      page(later).PrefetchValue(later.row);
    }
  }
  // Leaves the first `count` of them behind.
  void Consume(std::size_t count);

  ReadCounters counters() const;

 private:
  static constexpr std::size_t kFetchRows = 8;

  struct Slot {
    std::shared_ptr<const Page> page;
    std::size_t waiting = 0;  // rows of it in runs
    std::size_t memory = 0;
  };
  struct Run {
    std::vector<MergedRow> rows;
    std::size_t next = 0;
  };
  struct RunHead {
    RowKey key;
    std::size_t run;
    // The smallest on top of a std::priority_queue.
    bool operator<(const RunHead& other) const { return other.key < key; }
  };
  // A page that is not loaded yet.
  struct Pending {
    std::uint64_t first;  // bounds of its rows, by the major part of their keys
    std::uint64_t last;
    std::size_t block;  // in blocks_
    std::uint32_t page;
    bool operator<(const Pending& other) const { return other.first < first; }
  };

  Status List();
  Status AddBlock(Block block);
  std::uint64_t FirstOf(const Extent& extent) const;
  std::uint64_t LastOf(const Extent& extent) const;
  RowKey KeyOf(const Page& page, std::uint32_t row) const {
    return columnar::KeyOf(order_, page, row);
  }
  // Whether rows with these bounds can be wanted.
  bool Concerns(const Extent& extent) const;

  // Makes the pages of blocks that begin at or before `major` pending.
  Status ExpandBlocks(std::uint64_t major);
  Status ExpandBlock(std::size_t index);
  // Loads the first pending page and those that overlap it as a run.
  Status LoadRun();
  // Loads the pending pages that come next and begin at `last` or before, some MiB of them at once.
  Status LoadPages(std::uint64_t last, std::vector<MergedRow>* rows);
  // later: what has to wait in the spill.
  Status TakePage(const Pending& pending, std::shared_ptr<const Page> page,
                  std::vector<MergedRow>* rows, std::vector<RowSpill::PageRows>* later);
  // Puts a page where rows can be, until they are released.
  std::uint32_t AddSlot(std::shared_ptr<const Page> page);
  // As long as these rows of it wait.
  void Hold(std::uint32_t slot, std::size_t rows);
  // Of a page the rows that are wanted.
  void SelectRows(const Page& page, const DeletedRows& deleted, std::uint32_t slot,
                  std::vector<MergedRow>* rows);
  // Rows that are sorted.
  void AddRun(std::vector<MergedRow> rows);
  // Begins to go through windows: what waits goes to the spill.
  Status StartSpill();
  // Where windows should begin, by what blocks say of themselves.
  std::vector<RowKey> ChooseBounds() const;
  // With all pages of a window loaded: its rows from the spill become a run.
  Status TakeWindow();
  // Begins to read the next window if all of its pages are loaded and there is memory for it.
  void ReadAhead();
  // Whether a row with this key is in the window, or there are none.
  bool IsInWindow(const RowKey& key) const { return !window_end_ || key < *window_end_; }
  void Release(std::uint32_t slot, std::size_t rows);
  bool NeedsPages() const;
  // What no page that is not loaded begins before; absent: all are loaded.
  std::optional<std::uint64_t> NextFirst() const;

  const TopicSelector selector_;
  const RowSelector rows_;
  const std::size_t memory_max_;
  const MergeOrder order_;
  const std::string directory_;  // where it may spill
  BlockReader reader_;
  ReadCounters counters_;

  bool listed_ = false;
  std::vector<Block> blocks_;                          // by first key
  std::vector<std::optional<DeletedByPage>> deleted_;  // by block
  std::size_t next_block_ = 0;
  std::priority_queue<Pending> pending_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Run> runs_;
  std::vector<std::size_t> free_runs_;
  std::priority_queue<RunHead> heads_;
  std::size_t memory_ = 0;   // of the pages in slots_, and of their rows
  std::size_t waiting_ = 0;  // rows in runs

  const std::optional<RowKey> after_;    // rows up to here are not wanted
  std::unique_ptr<SpillWindows> spill_;  // null: no windows
  bool is_window_whole_ = false;         // its rows are in runs
  std::optional<RowKey> window_end_;     // absent: it is the last one, or there are none
};

}  // namespace topicdb::columnar
