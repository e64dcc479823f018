#include "layout/columnar/read/parcel_pages.h"

#include <memory>
#include <string>
#include <utility>

#include "layout/columnar/format/parcel.h"

namespace topicdb::columnar {

ParcelPages::ParcelPages(const RocksSource& source, const std::vector<ReadRequest>& any_of)
    : query_(any_of), parts_(PartsOf(any_of.front())), reader_(source) {}

ReadCounters ParcelPages::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  return counters;
}

Status ParcelPages::List() {
  listed_ = true;
  TOPICDB_ASSIGN_OR_RETURN(blocks_, query_.ListBlocks(reader_, &counters_));
  return Status::Ok();
}

Status ParcelPages::OpenBlock(const Block& block) {
  page_ = 0;
  pages_.clear();
  TOPICDB_ASSIGN_OR_RETURN(const BlockQuery::Pages found, query_.PagesOf(block, &reader_));
  TOPICDB_ASSIGN_OR_RETURN(deleted_, reader_.LoadDeleted(block.id));
  found.AddTo(&counters_);
  const bool may_be_whole = query_.wants_every_topic() && !query_.rows().has_masks();
  for (const std::uint32_t number : found.numbers) {
    const bool has_entry = block.is_paged();
    const Extent& extent = has_entry ? found.directory[number].extent : block.entry.extent;
    const std::uint32_t rows = has_entry ? found.directory[number].rows : block.entry.rows;
    const bool is_whole =
        may_be_whole && query_.rows().Covers(extent) && !deleted_.contains(number);
    pages_.push_back({number, rows, is_whole});
  }
  return Status::Ok();
}

Result<bool> ParcelPages::NextPage() {
  while (page_ == pages_.size()) {
    if (next_block_ == blocks_.size()) return false;
    TOPICDB_RETURN_IF_ERROR(OpenBlock(blocks_[next_block_++]));
  }
  return true;
}

Result<std::vector<std::uint32_t>> ParcelPages::WantedRows(const StoredPage& stored,
                                                           const Placement* placement) const {
  const Candidate& candidate = pages_[page_];
  TOPICDB_ASSIGN_OR_RETURN(const auto page, Page::Decode(stored.keys, {}, /*owner=*/nullptr,
                                                         PageParts::kKeys, placement));
  const std::vector<bool> topics = query_.TopicsOf(*page);
  static const DeletedRows kNone;
  const auto found = deleted_.find(candidate.number);
  DeletedCursor deleted(found == deleted_.end() ? kNone : found->second);
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < page->rows(); ++row) {
    const bool is_deleted = deleted.Holds(row);
    if (is_deleted || !topics[page->topic_of(row)] || !query_.rows().Wants(*page, row)) continue;
    if (query_.rows().has_masks() && query_.rows().IsMasked(*page, row)) continue;
    rows.push_back(row);
  }
  return rows;
}

Status ParcelPages::AddRowsOf(const StoredPage& stored, const Placement* placement,
                              const std::vector<std::uint32_t>& rows, ParcelBuilder* out) const {
  if (rows.empty()) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const auto page, Page::Decode(stored.keys, stored.values,
                                                         /*owner=*/nullptr, parts_, placement));
  std::vector<PackedRow> packed;
  packed.reserve(rows.size());
  for (const std::uint32_t row : rows) {
    packed.push_back({kStreamInParcel, page->topic(page->topic_of(row)), page->time(row),
                      page->serial(row), page->index(row), page->value(row)});
  }
  return AddRows(packed, parts_, out);
}

Status ParcelPages::AddStored(const Block& block, ParcelBuilder* out) {
  const Candidate& candidate = pages_[page_];
  TOPICDB_ASSIGN_OR_RETURN(const auto placement, reader_.LoadPlacement(block));
  TOPICDB_ASSIGN_OR_RETURN(const StoredPage stored,
                           reader_.LoadStored(block, candidate.number, parts_, placement.get()));
  std::uint64_t matched = candidate.rows;
  if (!candidate.is_whole) {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> rows,
                             WantedRows(stored, placement.get()));
    matched = rows.size();
    if (matched != candidate.rows) {
      TOPICDB_RETURN_IF_ERROR(AddRowsOf(stored, placement.get(), rows, out));
    }
  }
  if (matched == candidate.rows) {
    PageInParcel page;
    page.keys = stored.keys;
    page.values = stored.values;
    page.has_values = parts_ == PageParts::kAll;
    page.rows = candidate.rows;
    if (placement != nullptr) {
      page.serial = placement->serial;
      page.time_shift = placement->time_shift;
    }
    out->AddPage(page);
  }
  counters_.rows_examined += candidate.rows;
  counters_.rows_matched += matched;
  return Status::Ok();
}

Status ParcelPages::AddPage(ParcelBuilder* out) {
  const Block& block = blocks_[next_block_ - 1];
  const Status status = AddStored(block, out);
  if (!status.ok()) {
    return status.WithContext(NameOf(block.id) + ", page " + std::to_string(pages_[page_].number));
  }
  ++counters_.pages_read;
  ++page_;
  return Status::Ok();
}

Result<ReadOutcome> ParcelPages::ReadParcel(const ReadLimits& limits, ParcelBuilder* out) {
  if (!listed_) TOPICDB_RETURN_IF_ERROR(List());
  const std::uint64_t start = counters_.rows_examined;
  const auto has_room = [&] { return out->messages() == 0 || out->bytes() < limits.bytes_max; };
  while (has_room() && counters_.rows_examined - start <= limits.examined_max) {
    TOPICDB_ASSIGN_OR_RETURN(const bool found, NextPage());
    if (!found) return ReadOutcome::kExhausted;
    TOPICDB_RETURN_IF_ERROR(AddPage(out));
  }
  return ReadOutcome::kMore;
}

}  // namespace topicdb::columnar

namespace topicdb {

std::unique_ptr<ParcelSource> NewParcelSource(const RocksSource& source,
                                              std::vector<ReadRequest> any_of) {
  return std::make_unique<columnar::ParcelPages>(source, any_of);
}

}  // namespace topicdb
