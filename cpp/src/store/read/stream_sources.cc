#include "store/read/stream_sources.h"

#include <algorithm>

namespace topicdb {

namespace {

// The rows and bytes that a merge keeps in memory for all its streams, and bounds of the share of
// one stream.
constexpr std::size_t kMergeRows = 65'536;
constexpr std::size_t kMergeBytes = std::size_t{32} << 20;
constexpr std::size_t kPageRowsMin = 8;
constexpr std::size_t kPageRowsMax = 4'096;
constexpr std::size_t kPageBytesMin = std::size_t{4} << 10;
constexpr std::size_t kReaderBytesMin = std::size_t{12} << 20;

}  // namespace

Result<ReadOutcome> MessageSource::ReadParcel(const ReadLimits& limits, ParcelBuilder* out) {
  return ReadAsPage(this, limits, /*with_values=*/true, out);
}

std::unique_ptr<StreamReader> OpenInOrder(const StreamTarget& target, const TimeRange& range) {
  return OpenReader(target, range, StartOf(range));
}

SequentialSource::SequentialSource(std::vector<StreamTarget> targets, const TimeRange& range,
                                   OpenTarget open)
    : targets_(std::move(targets)), range_(range), open_(open) {}

Result<ReadOutcome> SequentialSource::Read(const ReadLimits& limits, Batch* out) {
  while (next_target_ < targets_.size()) {
    const StreamTarget& target = targets_[next_target_];
    if (reader_ == nullptr) reader_ = open_(target, range_);
    TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome, reader_->Read(limits, out));
    if (outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
    reader_.reset();
    ++next_target_;
    if (out->size() >= limits.rows_max || out->bytes() >= limits.bytes_max) {
      return ReadOutcome::kMore;
    }
  }
  return ReadOutcome::kExhausted;
}

MergedSource::MergedSource(std::vector<StreamTarget> targets, const TimeRange& range)
    : targets_(std::move(targets)),
      range_(range),
      page_rows_(std::clamp(kMergeRows / std::max<std::size_t>(targets_.size(), 1), kPageRowsMin,
                            kPageRowsMax)),
      page_bytes_(std::max(kMergeBytes / std::max<std::size_t>(targets_.size(), 1), kPageBytesMin)),
      memory_bytes_(
          std::max(kReadMemoryBytes / std::max<std::size_t>(targets_.size(), 1), kReaderBytesMin)) {
  for (const StreamTarget& target : targets_) {
    const std::int64_t first = target.slab->FirstTimestamp();
    heap_.push({std::max(first, range.start.value_or(0)), cursors_.size()});
    cursors_.push_back({&target, StartOf(range), Batch(), 0, false, nullptr});
  }
}

Result<ReadOutcome> MergedSource::Refill(std::size_t index, const ReadLimits& limits,
                                         bool with_serials) {
  Cursor& cursor = cursors_[index];
  cursor.page = Batch(with_serials);
  cursor.row = 0;
  if (cursor.exhausted) return ReadOutcome::kExhausted;
  if (cursor.reader == nullptr) {
    cursor.reader = OpenReader(*cursor.target, range_, cursor.position, memory_bytes_);
  }
  TOPICDB_ASSIGN_OR_RETURN(
      const ReadOutcome outcome,
      cursor.reader->Read({page_rows_, page_bytes_, limits.examined_max}, &cursor.page));
  if (cursor.page.empty() && outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
  cursor.position = cursor.reader->position();
  if (outcome == ReadOutcome::kExhausted || cursor.target->slab->layout().reads_one_stream()) {
    cursor.reader.reset();
  }
  cursor.exhausted = outcome == ReadOutcome::kExhausted;
  if (!cursor.page.empty()) heap_.push({cursor.page.timestamp(0), index});
  return ReadOutcome::kExhausted;
}

Result<ReadOutcome> MergedSource::Read(const ReadLimits& limits, Batch* out) {
  while (true) {
    while (!to_refill_.empty()) {
      TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome,
                               Refill(to_refill_.back(), limits, out->keeps_serials()));
      if (outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
      to_refill_.pop_back();
    }
    if (heap_.empty()) return ReadOutcome::kExhausted;
    const std::size_t index = heap_.top().cursor;
    Cursor& cursor = cursors_[index];
    if (!cursor.opened) {
      cursor.opened = true;
      heap_.pop();
      to_refill_.push_back(index);
      continue;
    }
    const MessageView message = cursor.page.message(cursor.row);
    const bool has_room =
        out->empty() ||
        (out->size() < limits.rows_max &&
         out->bytes() + message.topic.size() + message.value.size() <= limits.bytes_max &&
         out->Fits(message.topic.size(), message.value.size()));
    if (!has_room) return ReadOutcome::kMore;
    heap_.pop();
    out->Append(message, cursor.page.serial(cursor.row));
    if (slabs_ != nullptr) slabs_->push_back(cursor.target->slab.get());
    if (++cursor.row < cursor.page.size()) {
      heap_.push({cursor.page.timestamp(cursor.row), index});
    } else {
      to_refill_.push_back(index);
    }
  }
}

}  // namespace topicdb
