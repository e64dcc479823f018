#include "store/read/last_source.h"

#include <algorithm>

namespace topicdb {

LastSource::LastSource(std::vector<StreamTarget> targets, const TimeRange& range)
    : targets_(std::move(targets)), range_(range) {
  // Once the newer slabs were read, much of the older ones can be skipped.
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    order.emplace_back(targets_[i].slab->LastTimestamp(), i);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  std::vector<StreamTarget> sorted;
  sorted.reserve(targets_.size());
  for (const auto& [last, target] : order) sorted.push_back(std::move(targets_[target]));
  targets_ = std::move(sorted);
}

LastSource::~LastSource() { CloseReader(); }

void LastSource::CloseReader() {
  if (reader_ == nullptr) return;
  targets_[next_target_].slab->AddReads(reader_->counters());
  reader_.reset();
}

Result<bool> LastSource::Gather(std::size_t examined_max) {
  for (; next_target_ < targets_.size(); ++next_target_) {
    const StreamTarget& target = targets_[next_target_];
    found_.EnterShard(target.slab->id().shard);
    if (reader_ == nullptr) reader_ = OpenLastReader(target, range_, &found_);
    const auto outcome = reader_->Read(examined_max);
    if (!outcome.ok()) {
      return outcome.status().WithContext(target.view->Describe(target.slab->id()));
    }
    if (*outcome == ReadOutcome::kMore) return false;
    CloseReader();
  }
  return true;
}

Result<ReadOutcome> LastSource::Read(const ReadLimits& limits, Batch* out) {
  if (!order_.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(const bool complete, Gather(limits.examined_max));
    if (!complete) return ReadOutcome::kMore;
    order_ = found_.ByTopic();
  }
  for (; next_row_ < order_->size(); ++next_row_) {
    const LastMessages::Entry& entry = found_.entry((*order_)[next_row_]);
    const std::size_t bytes = entry.topic.size() + entry.value.size() + Batch::kRowBytes;
    const bool has_room = out->empty() || (out->size() < limits.rows_max &&
                                           out->bytes() + bytes <= limits.bytes_max &&
                                           out->Fits(entry.topic.size(), entry.value.size()));
    if (!has_room) return ReadOutcome::kMore;
    out->Append({entry.topic, entry.rank.timestamp, entry.value}, entry.rank.serial);
  }
  return ReadOutcome::kExhausted;
}

}  // namespace topicdb
