#include "layout/skipstream/skipstream_cursor.h"

#include <algorithm>
#include <limits>

namespace topicdb::skipstream {

bool IsEmptyRange(const TimeRange& range, std::uint32_t timestamp_bytes) {
  const std::int64_t start = range.start.value_or(0);
  const std::int64_t end = range.end.value_or(std::numeric_limits<std::int64_t>::max());
  if (timestamp_bytes == 0) return start > 0 || end <= 0;
  return range.end.has_value() && start >= end;
}

RowCursor::RowCursor(const RocksSource& source, const ReadRequest& request,
                     std::uint32_t timestamp_bytes)
    : timestamp_bytes_(timestamp_bytes),
      varying_count_(request.structure.VaryingCount()),
      serial_min_(request.serial_min),
      serial_max_(request.serial_max) {
  for (const RowMask& mask : request.masks) {
    std::optional<RowFilter> filter = RowFilter::Make(request.structure, mask.filter);
    if (filter.has_value()) masks_.push_back({std::move(*filter), mask});
  }
  const auto want = [&](const Filter& filter) {
    std::optional<RowFilter> wanted = RowFilter::Make(request.structure, filter);
    if (wanted.has_value()) any_of_.push_back(std::move(*wanted));
  };
  want(request.filter);
  for (const Filter& filter : request.or_filters) want(filter);
  if (any_of_.empty()) return;
  const StreamId stream = request.streams->front();
  std::string prefix;
  AppendDataPrefix(&prefix, stream);
  data_ = std::make_unique<KeyRun>(source, std::move(prefix), request.range, timestamp_bytes);
  if (any_of_.size() > 1) return;  // indexes can be joined for one filter only
  for (const RowFilter::Constraint& constraint : any_of_.front().constraints()) {
    if (constraint.varying_index >= kIndexedLevelsMax) continue;
    prefix.clear();
    AppendIndexPrefix(&prefix, stream, constraint.varying_index, constraint.word);
    indexes_.push_back(
        std::make_unique<KeyRun>(source, std::move(prefix), request.range, timestamp_bytes));
  }
}

void RowCursor::Seek(std::string_view suffix) {
  status_ = Status::Ok();
  if (any_of_.empty()) return;
  for (const auto& index : indexes_) index->Seek(suffix, &scratch_);
  data_->Seek(suffix, &scratch_);
  FindRow();
}

void RowCursor::Next() {
  KeyRun& leader = indexes_.empty() ? *data_ : *indexes_.front();
  leader.Next();
  FindRow();
}

void RowCursor::FindRow() {
  valid_ = false;
  while (true) {
    if (!indexes_.empty()) {
      if (!AlignIndexes()) return;
      data_->AdvanceTo(target_, &scratch_);
    }
    const bool at_data = CheckRun(*data_);
    if (!status_.ok()) return;
    if (!indexes_.empty() && !(at_data && data_->Suffix() == target_)) {
      Fail(Corruption("an index entry has no message"));
      return;
    }
    if (!at_data) return;
    ++examined_;
    if (AcceptRow()) return;
    if (!status_.ok()) return;
    (indexes_.empty() ? *data_ : *indexes_.front()).Next();
  }
}

bool RowCursor::AlignIndexes() {
  if (!CheckRun(*indexes_.front())) return false;
  target_ = indexes_.front()->Suffix();
  for (std::size_t agreed = 1, i = 0; agreed < indexes_.size();) {
    i = (i + 1) % indexes_.size();
    KeyRun& run = *indexes_[i];
    run.AdvanceTo(target_, &scratch_);
    if (!CheckRun(run)) return false;
    if (run.Suffix() == target_) {
      ++agreed;
    } else {
      target_ = run.Suffix();
      agreed = 1;
    }
  }
  return true;
}

bool RowCursor::AcceptRow() {
  if (!DecodeSuffix(data_->Suffix(), timestamp_bytes_, &key_) ||
      key_.words.size() != varying_count_) {
    return Fail(Corruption("the key of a message is malformed"));
  }
  if (!DecodeValue(data_->value(), &value_)) {
    return Fail(Corruption("the header of a message is malformed"));
  }
  const bool matches = std::any_of(any_of_.begin(), any_of_.end(), [&](const RowFilter& filter) {
    return filter.Matches(key_.words);
  });
  const bool in_commits = value_.serial >= serial_min_ && value_.serial <= serial_max_;
  valid_ = matches && in_commits && !IsDeleted();
  return valid_;
}

bool RowCursor::IsDeleted() const {
  return std::any_of(masks_.begin(), masks_.end(), [&](const Mask& one) {
    return one.mask.Reaches(value_.serial, value_.index) &&
           Contains(one.mask.range, key_.timestamp) && one.filter.Matches(key_.words);
  });
}

bool RowCursor::CheckRun(const KeyRun& run) {
  if (run.Valid()) return true;
  Status status = run.status();
  return status.ok() ? false : Fail(std::move(status));
}

bool RowCursor::Fail(Status status) {
  status_ = std::move(status);
  valid_ = false;
  return false;
}

}  // namespace topicdb::skipstream
