#include "layout/columnar/read/unordered_reader.h"

#include <algorithm>

#include "layout/blocks.h"
#include "layout/columnar/format/page_rows.h"

namespace topicdb::columnar {

UnorderedReader::UnorderedReader(const RocksSource& source, const std::vector<ReadRequest>& any_of)
    : query_(any_of),
      position_(any_of.front().position),
      with_values_(any_of.front().with_values),
      with_topics_(any_of.front().with_topics),
      reader_(source) {}

ReadCounters UnorderedReader::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  return counters;
}

Status UnorderedReader::List() {
  listed_ = true;
  TOPICDB_ASSIGN_OR_RETURN(blocks_, query_.ListBlocks(reader_, &counters_));
  return Status::Ok();
}

Status UnorderedReader::OpenBlock(const Block& block) {
  next_page_ = 0;
  TOPICDB_ASSIGN_OR_RETURN(BlockQuery::Pages pages, query_.PagesOf(block, &reader_));
  pages.AddTo(&counters_);
  pages_ = std::move(pages.numbers);
  TOPICDB_ASSIGN_OR_RETURN(deleted_, reader_.LoadDeleted(block.id));
  return Status::Ok();
}

PageParts UnorderedReader::PartsOf(const Block& block, bool with_serials) const {
  if (with_values_) return PageParts::kAll;
  const bool by_times = !with_topics_ && !with_serials && !query_.rows().has_masks() &&
                        query_.rows().CoversSerials(block.entry.extent);
  return by_times ? PageParts::kTimes : PageParts::kKeys;
}

Status UnorderedReader::LoadAhead(bool with_serials) {
  const Block& block = blocks_[next_block_ - 1];
  const PageParts parts = PartsOf(block, with_serials);
  std::vector<BlockReader::PageRef> wanted;
  std::uint64_t bytes = 0;
  do {
    wanted.push_back({&block, pages_[next_page_++]});
    bytes += block.BytesOfPage(parts);
  } while (bytes < bytes_ahead_ && next_page_ < pages_.size());
  bytes_ahead_ = std::min(2 * bytes, BlockReader::kBytesAtOnceMax);
  TOPICDB_ASSIGN_OR_RETURN(auto pages, reader_.LoadPages(wanted, parts));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    loaded_.emplace_back(wanted[i].page, std::move(pages[i]));
  }
  return Status::Ok();
}

Result<bool> UnorderedReader::NextPage(bool with_serials) {
  if (loaded_.empty()) {
    while (next_page_ == pages_.size()) {
      if (next_block_ == blocks_.size()) return false;
      TOPICDB_RETURN_IF_ERROR(OpenBlock(blocks_[next_block_++]));
    }
    TOPICDB_RETURN_IF_ERROR(LoadAhead(with_serials));
  }
  const std::uint32_t number = loaded_.front().first;
  page_ = std::move(loaded_.front().second);
  loaded_.pop_front();
  ++counters_.pages_read;
  counters_.rows_examined += page_->rows();
  const auto found = deleted_.find(number);
  deleted_rows_ = found == deleted_.end() ? nullptr : &found->second;
  topics_ = query_.TopicsOf(*page_);
  all_topics_ = std::find(topics_.begin(), topics_.end(), false) == topics_.end();
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

std::uint32_t UnorderedReader::EndOfRun() const {
  if (!with_topics_ && all_topics_ && covered_) return page_->rows();
  const std::uint32_t topic = page_->topic_of(row_);
  std::uint32_t end = row_ + 1;
  while (end < page_->rows() && page_->topic_of(end) == topic && Wants(end)) ++end;
  return end;
}

bool UnorderedReader::AppendKeysOfRows(const ReadLimits& limits, Batch* out) {
  while (row_ < page_->rows()) {
    if (!Wants(row_)) {
      ++row_;
      continue;
    }
    const std::size_t topic_bytes =
        with_topics_ ? page_->topic(page_->topic_of(row_)).size() : std::size_t{0};
    const std::size_t bytes_left = limits.bytes_max - std::min(limits.bytes_max, out->bytes());
    const std::size_t rows_left = limits.rows_max - std::min(limits.rows_max, out->size());
    std::size_t room = std::min(rows_left, bytes_left / (topic_bytes + Batch::kRowBytes));
    if (out->empty()) room = std::max<std::size_t>(room, 1);
    const auto rows = static_cast<std::uint32_t>(std::min<std::size_t>(EndOfRun() - row_, room));
    if (rows == 0 || !out->Fits(rows * topic_bytes, 0)) return false;
    AppendKeys(*page_, row_, row_ + rows, with_topics_, out);
    out->AppendEmptyValues();
    counters_.rows_matched += rows;
    row_ += rows;
  }
  return true;
}

bool UnorderedReader::AppendRows(const ReadLimits& limits, Batch* out) {
  const auto wants = [&](std::uint32_t row) { return Wants(row); };
  const std::uint32_t lent = LendRows(page_, row_, limits, with_topics_, wants, out);
  counters_.rows_matched += lent;
  row_ += lent;
  if (lent > 0) return false;
  if (out->empty()) {
    constexpr std::size_t kRowsMax = 1 << 16;
    ReserveLike(*page_, std::min(limits.rows_max, kRowsMax), limits.bytes_max, out, with_topics_);
  }
  if (!page_->has_values()) return AppendKeysOfRows(limits, out);
  RowCopier copier(limits, out, with_topics_);
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
    TOPICDB_ASSIGN_OR_RETURN(const bool found, NextPage(out->keeps_serials()));
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
