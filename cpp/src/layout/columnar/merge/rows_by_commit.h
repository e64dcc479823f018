// Rows of pages that come in any order, handed out in that of their commits. Memory is bounded:
// what exceeds it waits in a temporary file (RowSpill).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layout/columnar/format/page.h"
#include "layout/columnar/merge/row_spill.h"

namespace topicdb::columnar {

// A message as it was found; valid during the call that gives it.
struct FoundRow {
  std::string_view topic;
  std::int64_t time;
  std::uint64_t serial;
  std::uint32_t index;
  std::string_view value;
  bool is_stray;  // in a page of which no record speaks
};

// Owned by one reading; not thread-safe.
class RowsByCommit {
 public:
  using Take = std::function<Status(const FoundRow&)>;

  RowsByCommit(std::string directory, std::size_t memory_max)
      : directory_(std::move(directory)), memory_max_(memory_max) {}

  // A row of the page that was added last. `serial` and `time` are what they are in truth.
  void AddPage(std::shared_ptr<const Page> page);
  void AddRow(std::uint32_t row, std::uint64_t serial, std::int64_t time, bool is_stray);

  // Calls take(row) for the rows of commits before serial_end, if these are not too many to be in
  // memory; what has the same place among the commits is given once, and the one that is not stray.
  // What `take` returns ends it. kStorage. REQUIRES: no row of these commits is added any more
  Status TakeBefore(std::uint64_t serial_end, const Take& take);
  // The same for all that are left.
  Status TakeRest(const Take& take);

 private:
  struct Row {
    std::uint64_t serial;
    std::uint32_t index;
    std::uint32_t row;
    std::int64_t time;
    const Page* page;
    bool is_stray;
  };

  static void Sort(std::vector<Row>* rows);
  // Gives the first `count` of sorted rows.
  static Status Give(const std::vector<Row>& rows, std::size_t count, const Take& take);
  void DropUnused();
  Status Spill();

  const std::string directory_;
  const std::size_t memory_max_;
  std::vector<Row> rows_;
  std::vector<std::shared_ptr<const Page>> pages_;  // of rows_
  std::unique_ptr<RowSpill> spill_;                 // null: all are in rows_
};

}  // namespace topicdb::columnar
