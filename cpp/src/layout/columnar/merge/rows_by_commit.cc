#include "layout/columnar/merge/rows_by_commit.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace topicdb::columnar {

namespace {

// A spill keeps the streams of rows, which a salvage does not need. So the stream of a spilled row
// tells whether the row is stray.
constexpr StreamId kKnown{1};
constexpr StreamId kStray{2};

}  // namespace

void RowsByCommit::AddPage(std::shared_ptr<const Page> page) { pages_.push_back(std::move(page)); }

void RowsByCommit::AddRow(std::uint32_t row, Serial serial, std::int64_t time, bool is_stray) {
  const Page* const page = pages_.back().get();
  rows_.push_back({serial, page->index(row), row, time, page, is_stray});
}

void RowsByCommit::Sort(std::vector<Row>* rows) {
  std::sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) {
    return std::tuple(a.serial, a.index, a.is_stray) < std::tuple(b.serial, b.index, b.is_stray);
  });
}

Status RowsByCommit::Give(const std::vector<Row>& rows, std::size_t count, const Take& take) {
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = rows[i];
    const bool was_given =
        i > 0 && rows[i - 1].serial == row.serial && rows[i - 1].index == row.index;
    if (was_given) continue;
    TOPICDB_RETURN_IF_ERROR(take({row.page->topic(row.page->topic_of(row.row)), row.time,
                                  row.serial, row.index, row.page->value(row.row), row.is_stray}));
  }
  return Status::Ok();
}

void RowsByCommit::DropUnused() {
  std::set<const Page*> in_use;
  for (const Row& row : rows_) in_use.insert(row.page);
  std::erase_if(pages_, [&](const auto& page) { return !in_use.contains(page.get()); });
}

Status RowsByCommit::Spill() {
  if (spill_ == nullptr) {
    spill_ = std::make_unique<RowSpill>(directory_, MergeOrder::kSerial, std::vector<RowKey>(),
                                        memory_max_ / 2);
  }
  for (const Row& row : rows_) {
    const Page& page = *row.page;
    const PackedRow copy{row.is_stray ? kStray : kKnown,
                         page.topic(page.topic_of(row.row)),
                         row.time,
                         row.serial,
                         row.index,
                         page.value(row.row)};
    TOPICDB_RETURN_IF_ERROR(spill_->Add({row.serial.value(), row.index, 0}, copy));
  }
  rows_.clear();
  pages_.clear();
  return Status::Ok();
}

Status RowsByCommit::TakeBefore(Serial serial_end, const Take& take) {
  if (spill_ != nullptr) return Spill();
  Sort(&rows_);
  const auto end = std::partition_point(rows_.begin(), rows_.end(),
                                        [&](const Row& row) { return row.serial < serial_end; });
  TOPICDB_RETURN_IF_ERROR(Give(rows_, static_cast<std::size_t>(end - rows_.begin()), take));
  rows_.erase(rows_.begin(), end);
  DropUnused();
  std::size_t memory = rows_.size() * sizeof(Row);
  for (const auto& page : pages_) memory += page->memory_bytes();
  return memory > memory_max_ ? Spill() : Status::Ok();
}

Status RowsByCommit::TakeRest(const Take& take) {
  if (spill_ != nullptr) TOPICDB_RETURN_IF_ERROR(Spill());
  Sort(&rows_);
  TOPICDB_RETURN_IF_ERROR(Give(rows_, rows_.size(), take));
  rows_.clear();
  pages_.clear();
  while (spill_ != nullptr && !spill_->is_finished()) {
    TOPICDB_RETURN_IF_ERROR(spill_->Prepare());
    TOPICDB_ASSIGN_OR_RETURN(pages_, spill_->Take());
    for (const auto& page : pages_) {
      for (std::uint32_t row = 0; row < page->rows(); ++row) {
        rows_.push_back({page->serial(row), page->index(row), row, page->time(row), page.get(),
                         page->stream(page->topic_of(row)) == kStray});
      }
    }
    Sort(&rows_);
    TOPICDB_RETURN_IF_ERROR(Give(rows_, rows_.size(), take));
    rows_.clear();
    pages_.clear();
  }
  return Status::Ok();
}

}  // namespace topicdb::columnar
