#include "layout/columnar/read/unordered_reader.h"

#include <algorithm>

#include "layout/blocks.h"
#include "layout/columnar/format/page_rows.h"

namespace topicdb::columnar {

UnorderedReader::UnorderedReader(const RocksSource& source, const std::vector<ReadRequest>& any_of)
    : query_(any_of),
      position_(any_of.front().position),
      parts_(PartsOf(any_of.front())),
      reader_(source) {}

ReadCounters UnorderedReader::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  return counters;
}

Status UnorderedReader::List() {
  listed_ = true;
  return query_.ForEachBlock(reader_, [&](Block block) {
    ++counters_.blocks;
    block.entry.streams = {};
    blocks_.push_back(std::move(block));
    return Status::Ok();
  });
}

Status UnorderedReader::OpenBlock(const Block& block) {
  next_page_ = 0;
  TOPICDB_ASSIGN_OR_RETURN(BlockQuery::Pages pages, query_.PagesOf(block, &reader_));
  pages_ = std::move(pages.numbers);
  counters_.pages += pages_.size();
  TOPICDB_ASSIGN_OR_RETURN(deleted_, reader_.LoadDeleted(block.id));
  return Status::Ok();
}

Status UnorderedReader::LoadAhead() {
  const Block& block = blocks_[next_block_ - 1];
  std::vector<BlockReader::PageRef> wanted;
  std::uint64_t bytes = 0;
  do {
    wanted.push_back({&block, pages_[next_page_++]});
    bytes += block.BytesOfPage(parts_);
  } while (bytes < bytes_ahead_ && next_page_ < pages_.size());
  bytes_ahead_ = std::min(2 * bytes, BlockReader::kBytesAtOnceMax);
  TOPICDB_ASSIGN_OR_RETURN(auto pages, reader_.LoadPages(wanted, parts_));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    loaded_.emplace_back(wanted[i].page, std::move(pages[i]));
  }
  return Status::Ok();
}

Result<bool> UnorderedReader::NextPage() {
  if (loaded_.empty()) {
    while (next_page_ == pages_.size()) {
      if (next_block_ == blocks_.size()) return false;
      TOPICDB_RETURN_IF_ERROR(OpenBlock(blocks_[next_block_++]));
    }
    TOPICDB_RETURN_IF_ERROR(LoadAhead());
  }
  const std::uint32_t number = loaded_.front().first;
  page_ = std::move(loaded_.front().second);
  loaded_.pop_front();
  ++counters_.pages_read;
  counters_.rows_examined += page_->rows();
  const auto found = deleted_.find(number);
  deleted_rows_ = found == deleted_.end() ? nullptr : &found->second;
  topics_ = query_.TopicsOf(*page_);
  covered_ = query_.rows().Covers(page_->extent()) && !query_.rows().has_masks() &&
             deleted_rows_ == nullptr;
  row_ = 0;
  return true;
}

bool UnorderedReader::Wants(std::uint32_t row) const {
  if (!topics_[page_->topic_of(row)]) return false;
  if (covered_) return true;
  if (!query_.rows().Wants(*page_, row)) return false;
  if (deleted_rows_ != nullptr &&
      std::binary_search(deleted_rows_->begin(), deleted_rows_->end(), row)) {
    return false;
  }
  return !query_.rows().has_masks() || !query_.rows().IsMasked(*page_, row);
}

bool UnorderedReader::AppendRows(const ReadLimits& limits, Batch* out) {
  const auto wants = [&](std::uint32_t row) { return Wants(row); };
  const std::uint32_t lent = LendRows(page_, row_, limits, wants, out);
  counters_.rows_matched += lent;
  row_ += lent;
  if (lent > 0) return false;
  if (out->empty()) {
    constexpr std::size_t kRowsMax = 1 << 16;
    ReserveLike(*page_, std::min(limits.rows_max, kRowsMax), limits.bytes_max, out);
  }
  RowCopier copier(limits, out);
  for (; row_ < page_->rows(); ++row_) {
    if (!Wants(row_)) continue;
    if (!copier.Append(*page_, row_)) return false;
    ++counters_.rows_matched;
  }
  return true;
}

Result<ReadOutcome> UnorderedReader::Read(const ReadLimits& limits, Batch* out) {
  if (!listed_) TOPICDB_RETURN_IF_ERROR(List());
  const std::uint64_t start = counters_.rows_examined;
  while (true) {
    if (page_ != nullptr && !AppendRows(limits, out)) return ReadOutcome::kMore;
    page_.reset();
    if (counters_.rows_examined - start > limits.examined_max) return ReadOutcome::kMore;
    TOPICDB_ASSIGN_OR_RETURN(const bool found, NextPage());
    if (!found) return ReadOutcome::kExhausted;
  }
}

}  // namespace topicdb::columnar

namespace topicdb {

std::unique_ptr<StreamReader> NewUnorderedReader(const RocksSource& source,
                                                 std::vector<ReadRequest> any_of) {
  return std::make_unique<columnar::UnorderedReader>(source, any_of);
}

}  // namespace topicdb
