// Takes rows of pages in any order, and hands them out in the order of their commits. Memory is
// bounded: rows that exceed it wait in a temporary file (RowSpill).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layout/columnar/format/page.h"
#include "layout/columnar/merge/row_spill.h"

namespace topicdb::columnar {

// A message that was found. Valid during the call that hands it out.
struct FoundRow {
  std::string_view topic;
  std::int64_t time;
  Serial serial;
  std::uint32_t index;
  std::string_view value;
  bool is_stray;  // if true, it was in a page that no record names
};

// Sorts the rows of one salvage, which owns it. Not thread-safe: Take functions are called by the
// thread that calls TakeBefore or TakeRest.
class RowsByCommit {
 public:
  using Take = std::function<Status(const FoundRow&)>;

  RowsByCommit(std::string directory, std::size_t memory_max)
      : directory_(std::move(directory)), memory_max_(memory_max) {}

  // Adds a page without its rows. AddRow adds them.
  void AddPage(std::shared_ptr<const Page> page);
  // Adds a row of the page that was added last. `serial` and `time` are those of the message, which
  // may differ from those in the page.
  void AddRow(std::uint32_t row, Serial serial, std::int64_t time, bool is_stray);

  // Calls take(row) for each row of a commit before `serial_end`. If the rows have exceeded the
  // memory, calls it for none: TakeRest hands out all of them. Hands out one row for each place,
  // and prefers one that is not stray. An error that `take` returns ends the call. Returns that
  // error, or kStorage.
  // REQUIRES: no more rows of these commits will be added
  Status TakeBefore(Serial serial_end, const Take& take);
  // As TakeBefore, but for all rows that are left.
  Status TakeRest(const Take& take);

 private:
  // A row that waits. `page` has its topic and value.
  struct Row {
    Serial serial;
    std::uint32_t index;
    std::uint32_t row;
    std::int64_t time;
    const Page* page;
    bool is_stray;
  };

  // Sorts rows by their places. Of equal places, a row that is not stray comes first.
  static void Sort(std::vector<Row>* rows);
  // Hands out the first `count` of sorted rows, one for each place.
  static Status Give(const std::vector<Row>& rows, std::size_t count, const Take& take);
  // Frees the pages that have no more rows in rows_.
  void DropUnused();
  // Moves all rows to the spill.
  Status Spill();

  const std::string directory_;
  const std::size_t memory_max_;
  std::vector<Row> rows_;
  std::vector<std::shared_ptr<const Page>> pages_;  // of rows_
  std::unique_ptr<RowSpill> spill_;                 // null: all rows are in rows_
};

}  // namespace topicdb::columnar
