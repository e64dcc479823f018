#include "layout/columnar/unordered_reader.h"

#include <algorithm>

#include "layout/blocks.h"

namespace topicdb::columnar {

namespace {

// Less is copied sooner than a batch of its own is handed out.
constexpr std::size_t kLentBytesMin = std::size_t{128} << 10;

}  // namespace

UnorderedReader::UnorderedReader(const RocksSource& source, const std::vector<ReadRequest>& any_of)
    : query_(any_of), position_(any_of.front().position), reader_(source) {}

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

Result<bool> UnorderedReader::NextPage() {
  while (next_page_ == pages_.size()) {
    if (next_block_ == blocks_.size()) return false;
    TOPICDB_RETURN_IF_ERROR(OpenBlock(blocks_[next_block_++]));
  }
  const std::uint32_t number = pages_[next_page_++];
  TOPICDB_ASSIGN_OR_RETURN(page_, reader_.LoadPage(blocks_[next_block_ - 1], number));
  ++counters_.pages_read;
  counters_.rows_examined += page_->rows();
  const auto found = deleted_.find(number);
  deleted_rows_ = found == deleted_.end() ? nullptr : &found->second;
  topics_ = query_.TopicsOf(*page_);
  covered_ = query_.Covers(page_->extent()) && !query_.has_masks() && deleted_rows_ == nullptr;
  row_ = 0;
  return true;
}

bool UnorderedReader::Wants(std::uint32_t row) const {
  if (!topics_[page_->topic_of(row)]) return false;
  if (covered_) return true;
  if (!query_.WantsRow(*page_, row)) return false;
  if (deleted_rows_ != nullptr &&
      std::binary_search(deleted_rows_->begin(), deleted_rows_->end(), row)) {
    return false;
  }
  return !query_.has_masks() || !query_.IsMasked(*page_, row);
}

bool UnorderedReader::LendRows(const ReadLimits& limits, Batch* out) {
  const std::span<const std::int32_t> offsets = page_->value_offsets();
  const std::uint32_t first = row_;
  std::uint32_t end = first;
  std::size_t topic_bytes = 0;
  std::size_t value_bytes = 0;
  while (end < page_->rows() && end - first < limits.rows_max && Wants(end)) {
    const std::size_t topic = page_->topic(page_->topic_of(end)).size();
    const auto values = static_cast<std::size_t>(offsets[end + 1] - offsets[first]);
    const std::size_t bytes = topic_bytes + topic + values + (end - first + 1) * Batch::kRowBytes;
    if (end > first && (bytes > limits.bytes_max || topic_bytes + topic > Batch::kColumnBytesMax)) {
      break;
    }
    topic_bytes += topic;
    value_bytes = values;
    ++end;
  }
  if (value_bytes < kLentBytesMin) return false;
  out->Reserve(end - first, topic_bytes, 0);
  for (std::uint32_t row = first; row < end; ++row) {
    out->AppendKey(page_->topic(page_->topic_of(row)), page_->time(row));
  }
  out->BorrowValues(page_, offsets.subspan(first, end - first + 1), page_->values());
  counters_.rows_matched += end - first;
  row_ = end;
  return true;
}

bool UnorderedReader::AppendRows(const ReadLimits& limits, Batch* out) {
  if (out->empty() && page_->values().size() >= kLentBytesMin && LendRows(limits, out)) {
    return false;
  }
  if (out->empty()) {  // room for a batch of rows like these
    const std::size_t rows = std::min<std::size_t>(limits.rows_max, 1 << 16);
    const auto share = [&](std::size_t bytes) {
      return std::min(bytes / page_->rows() * rows * 9 / 8, limits.bytes_max);
    };
    out->Reserve(rows, 0, share(page_->values().size()));
  }
  std::size_t bytes = out->bytes();
  for (; row_ < page_->rows(); ++row_) {
    if (!Wants(row_)) continue;
    const MessageView message{page_->topic(page_->topic_of(row_)), page_->time(row_),
                              page_->value(row_)};
    bytes += message.topic.size() + message.value.size() + Batch::kRowBytes;
    const bool has_room =
        out->empty() || (out->size() < limits.rows_max && bytes <= limits.bytes_max &&
                         out->Fits(message.topic.size(), message.value.size()));
    if (!has_room) return false;
    out->Append(message);
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
