// The rows that a request wants, from all pages of a slab, in one order.
//
// Blocks are taken in the order of their first key, and of those the pages that may hold wanted
// rows. A page is loaded when the sweep comes to its first key, together with the pages that
// overlap it, and the wanted rows of those are sorted: a run. Runs are merged by a heap. In data
// that came in the order of time there is one run at a time; where late data overlap, there are as
// many as overlap.
//
// Memory is bounded whatever overlaps: when the pages held exceed the bound, only the first half of
// the rows is kept, copied out of the pages, and what was dropped is read again in another pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "layout/columnar/block_reader.h"
#include "layout/columnar/row_selector.h"
#include "layout/columnar/row_sort.h"
#include "layout/columnar/topic_selector.h"
#include "layout/layout.h"

namespace topicdb::columnar {

enum class MergeOrder {
  kTime,    // timestamp, serial, index
  kSerial,  // serial, index: as committed
};

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
  void StartPass();
  std::uint64_t FirstOf(const Extent& extent) const;
  std::uint64_t LastOf(const Extent& extent) const;
  RowKey KeyOf(const Page& page, std::uint32_t row) const;
  // Whether rows with these bounds can be in this pass.
  bool Concerns(const Extent& extent) const;

  // Makes the pages of blocks that begin at or before `major` pending.
  Status ExpandBlocks(std::uint64_t major);
  Status ExpandBlock(std::size_t index);
  // Loads the first pending page and those that overlap it as a run.
  Status LoadRun();
  Status LoadPage(const Pending& pending, std::vector<MergedRow>* rows);
  // Of a page the rows that are wanted.
  void SelectRows(const Page& page, const DeletedRows* deleted, std::uint32_t slot,
                  std::vector<MergedRow>* rows);
  void AddRun(std::vector<MergedRow> rows);
  // Keeps the first half of all rows that wait, or less, in memory of their own.
  Status Shrink();
  // The rows that Shrink keeps, by serial.
  std::vector<MergedRow> FirstHalf() const;
  void Release(std::uint32_t slot, std::size_t rows);
  bool NeedsPages() const;

  const TopicSelector selector_;
  const RowSelector rows_;
  const std::size_t memory_max_;
  const MergeOrder order_;
  BlockReader reader_;
  ReadCounters counters_;

  bool listed_ = false;
  std::vector<Block> blocks_;                                                 // by first key
  std::vector<std::optional<std::map<std::uint32_t, DeletedRows>>> deleted_;  // by block
  std::size_t next_block_ = 0;
  std::priority_queue<Pending> pending_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Run> runs_;
  std::vector<std::size_t> free_runs_;
  std::priority_queue<RunHead> heads_;
  std::size_t memory_ = 0;   // of the pages in slots_, and of their rows
  std::size_t waiting_ = 0;  // rows in runs

  std::optional<RowKey> after_;    // rows up to here are not wanted
  std::optional<RowKey> ceiling_;  // rows behind it are left to another pass
};

}  // namespace topicdb::columnar
