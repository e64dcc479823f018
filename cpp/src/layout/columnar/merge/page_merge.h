// Merges the rows that a request wants, from all pages of a slab, in one order.
//
// The merge takes blocks in the order of their first key, and of each block the pages that may hold
// wanted rows. When it comes to the first key of a page, it loads the page together with the pages
// that overlap it. It sorts the wanted rows of these pages: they are a run. A heap merges the runs.
// Data that came in the order of time make one run at a time. Late data that overlap make as many
// runs as overlap.
//
// Memory is bounded, however much overlaps. When the loaded pages exceed the bound, the rest of the
// merge goes through windows of keys. The merge loads the pages that begin in a window. Rows of
// later windows, and rows that do not fit into memory, wait in a RowSpill. When all pages of the
// window are loaded, all of its rows are there, and the merge hands them out. So each page is
// loaded once. Rows of the next few windows stay in memory if there is room for their page. So
// blocks that follow each other in time do not go through the file because others overlap.
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

// One merge over the pages of a slab. The reader of a request owns it, and it lives as long as the
// reader. Not thread-safe: a thread of its own may read rows from the spill ahead, but touches
// nothing else.
class PageMerge {
 public:
  // Makes a merge of the rows behind the key `after` that commit `serial_min` or a later one wrote.
  PageMerge(const RocksSource& source, const ReadRequest& request, MergeOrder order,
            std::optional<RowKey> after, Serial serial_min = kNoSerial);

  // What Prepare has come to.
  enum class State { kReady, kExhausted, kPaused };
  // Makes the next rows ready, and returns kReady. Returns kExhausted if there are no more rows,
  // and kPaused after it has examined about `examined_max` rows. Returns kCorruption if data are
  // damaged.
  Result<State> Prepare(std::size_t examined_max);

  // REQUIRES (Ready, page, shared_page, FetchAhead, Consume): Prepare has just returned kReady

  // Returns the next rows in order, at least one. After Consume, Prepare finds the rows behind
  // them.
  std::span<const MergedRow> Ready();
  // Return the page of a ready row. shared_page lets the caller keep the page after Consume.
  const Page& page(const MergedRow& row) const { return *slots_[row.slot].page; }
  const std::shared_ptr<const Page>& shared_page(const MergedRow& row) const {
    return slots_[row.slot].page;
  }
  // Lets the processor fetch the rows that come shortly after rows[index]. Neighbours in the order
  // lie far from each other in memory, and waiting for each of them would take most of the time.
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
  // Moves past the first `count` ready rows.
  void Consume(std::size_t count);

  // Returns what the merge has done since it was made.
  ReadCounters counters() const;

 private:
  static constexpr std::size_t kFetchRows = 8;

  // A place for a loaded page. Rows refer to it by its number.
  struct Slot {
    std::shared_ptr<const Page> page;
    std::size_t waiting = 0;  // how many of its rows are in runs
    std::size_t memory = 0;
  };
  // Sorted rows that wait to be merged. Rows before `next` were consumed.
  struct Run {
    std::vector<MergedRow> rows;
    std::size_t next = 0;
  };
  // The first row of a run.
  struct RunHead {
    RowKey key;
    std::size_t run;
    // Puts the smallest key on top of a std::priority_queue.
    bool operator<(const RunHead& other) const { return other.key < key; }
  };
  // A page that is not loaded yet.
  struct Pending {
    std::uint64_t first;  // bounds of its rows, by the major part of their keys
    std::uint64_t last;
    std::size_t block;  // index in blocks_
    std::uint32_t page;
    bool operator<(const Pending& other) const { return other.first < first; }
  };

  // Fills blocks_.
  Status List();
  // Adds a block to blocks_ unless it surely has no wanted rows.
  Status AddBlock(Block block);
  // Return the smallest and the largest major part of a key in the extent.
  std::uint64_t FirstOf(const Extent& extent) const;
  std::uint64_t LastOf(const Extent& extent) const;
  RowKey KeyOf(const Page& page, std::uint32_t row) const {
    return columnar::KeyOf(order_, page, row);
  }
  // Returns true if rows with these bounds may be wanted.
  bool Concerns(const Extent& extent) const;

  // Adds to pending_ the pages of all blocks that begin at or before `major`. ExpandBlock does so
  // for one block, and leaves out pages that surely have no wanted rows.
  Status ExpandBlocks(std::uint64_t major);
  Status ExpandBlock(std::size_t index);
  // Loads the first pending page and the pages that overlap it, and makes a run of their rows.
  Status LoadRun();
  // Loads the next pending pages that begin at or before `last`, at most some MiB of them at once.
  Status LoadPages(std::uint64_t last, std::vector<MergedRow>* rows);
  // Puts a page into a slot, and adds its wanted rows to `rows`, or to `later` if they have to wait
  // in the spill.
  Status TakePage(const Pending& pending, std::shared_ptr<const Page> page,
                  std::vector<MergedRow>* rows, std::vector<RowSpill::PageRows>* later);
  // Puts a page into a free slot, and returns the number of the slot.
  std::uint32_t AddSlot(std::shared_ptr<const Page> page);
  // Counts the page of a slot and its waiting rows as memory. The slot keeps the page until Release
  // was called for all of these rows.
  void Hold(std::uint32_t slot, std::size_t rows);
  // Adds the wanted rows of a page to `rows`.
  void SelectRows(const Page& page, const DeletedRows& deleted, std::uint32_t slot,
                  std::vector<MergedRow>* rows);
  // Adds a run to the heap, unless it has no rows. REQUIRES: rows are sorted
  void AddRun(std::vector<MergedRow> rows);
  // Makes the merge go through windows from now on: moves all waiting rows to the spill.
  Status StartSpill();
  // Moves the waiting rows of all runs to the spill, and frees the pages.
  Status SpillRuns();
  // Returns where windows should begin, judged by the entries of blocks.
  std::vector<RowKey> ChooseBounds() const;
  // Makes a run of the window's rows from the spill. REQUIRES: all pages of the window are loaded
  Status TakeWindow();
  // Begins to read the next window if all of its pages are loaded and there is memory for it.
  // Returns kStorage if rows cannot be written.
  Status ReadAhead();
  // Returns true if a row with this key is in the window, or if there are no windows.
  bool IsInWindow(const RowKey& key) const { return !window_end_ || key < *window_end_; }
  // Returns the greatest major part that a key of the window may have. REQUIRES: there is a key in
  // the window
  std::uint64_t LastInWindow() const;
  // Returns true if the wanted rows of a page, just loaded, have to wait in the spill.
  bool MustWait(const Pending& pending) const;
  // Counts this many rows of a slot as done, and frees the page with the last of them.
  void Release(std::uint32_t slot, std::size_t rows);
  // Returns true if more pages must be loaded before the next row of the merge is known.
  bool NeedsPages() const;
  // Returns the major part of a key before which no page begins that is not loaded yet. Returns
  // nothing if all pages are loaded.
  std::optional<std::uint64_t> NextFirst() const;

  const TopicSelector selector_;
  const RowSelector rows_;
  const std::size_t memory_max_;
  const MergeOrder order_;
  const PageParts parts_;
  const std::string directory_;  // for the temporary files of the spill
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
  std::size_t waiting_ = 0;  // how many rows are in runs

  const std::optional<RowKey> after_;    // rows up to this key are not wanted
  std::unique_ptr<SpillWindows> spill_;  // null: the merge does not go through windows
  bool is_window_whole_ = false;         // if true, all rows of the window are in runs
  std::optional<RowKey> window_end_;     // absent: the window is the last one, or there is none
};

}  // namespace topicdb::columnar
