#include "layout/skipstream/skipstream_reader.h"

#include <algorithm>
#include <limits>

namespace topicdb::skipstream {

namespace {

constexpr std::size_t kGroupRowsMax = 65'536;
constexpr std::size_t kGroupBytesMax = std::size_t{16} << 20;

std::size_t EndOf(std::size_t begin, std::size_t count) {
  return begin + std::min(count, std::numeric_limits<std::size_t>::max() - begin);
}

}  // namespace

SkipstreamReader::SkipstreamReader(const RocksSource& source, ReadRequest request,
                                   std::uint32_t timestamp_bytes)
    : timestamp_bytes_(timestamp_bytes),
      range_(request.range),
      with_values_(request.with_values),
      topic_builder_(request.structure),
      cursor_(source, request, timestamp_bytes),
      position_(std::move(request.position)),
      group_rows_max_(kGroupRowsMax),
      group_bytes_max_(kGroupBytesMax) {}

ReadCounters SkipstreamReader::counters() const {
  ReadCounters counters;
  counters.rows_examined = cursor_.examined();
  counters.rows_matched = matched_;
  return counters;
}

void SkipstreamReader::SetGroupLimits(std::size_t rows_max, std::size_t bytes_max) {
  group_rows_max_ = rows_max;
  group_bytes_max_ = bytes_max;
}

Result<ReadOutcome> SkipstreamReader::Read(const ReadLimits& limits, Batch* out) {
  if (IsEmptyRange(range_, timestamp_bytes_)) return ReadOutcome::kExhausted;
  if (!started_) Start();
  return timestamp_bytes_ == 0 ? ReadByKey(limits, out) : ReadByTime(limits, out);
}

void SkipstreamReader::Start() {
  started_ = true;
  if (timestamp_bytes_ != 0) {
    SeekTime(std::max(position_.timestamp, range_.start.value_or(0)));
  } else if (position_.kind == Position::Kind::kAfterKey) {
    cursor_.Seek(position_.words + '\0');
  } else {
    cursor_.Seek({});
  }
}

void SkipstreamReader::SeekTime(std::int64_t timestamp) {
  std::string suffix;
  AppendTime(&suffix, timestamp, timestamp_bytes_);
  cursor_.Seek(suffix);
}

bool SkipstreamReader::HasRoom(const ReadLimits& limits, const Batch& out, std::size_t topic_size,
                               std::size_t value_size) {
  if (out.empty()) return true;
  return out.size() < limits.rows_max &&
         out.bytes() + topic_size + value_size <= limits.bytes_max &&
         out.Fits(topic_size, value_size);
}

Result<ReadOutcome> SkipstreamReader::ReadByKey(const ReadLimits& limits, Batch* out) {
  const std::size_t examined_end = EndOf(cursor_.examined(), limits.examined_max);
  for (; cursor_.Valid(); cursor_.Next()) {
    const DecodedSuffix& key = cursor_.key();
    topic_.clear();
    topic_builder_.Build(key.words, [&](std::string_view part) { topic_.append(part); });
    const std::string_view value = WantedValue();
    if (!HasRoom(limits, *out, topic_.size(), value.size()) || cursor_.examined() > examined_end) {
      return ReadOutcome::kMore;
    }
    out->Append({topic_, key.timestamp, value}, cursor_.value().serial);
    ++matched_;
    position_.kind = Position::Kind::kAfterKey;
    position_.words = key.words_bytes;
  }
  if (!cursor_.status().ok()) return cursor_.status();
  return ReadOutcome::kExhausted;
}

Result<ReadOutcome> SkipstreamReader::ReadByTime(const ReadLimits& limits, Batch* out) {
  const std::size_t examined_end = EndOf(cursor_.examined(), limits.examined_max);
  while (true) {
    if (!group_sorted_) {
      const bool complete = GatherGroup(examined_end);
      if (!cursor_.status().ok()) return cursor_.status();
      if (!complete) return ReadOutcome::kMore;
      if (!in_group_) return ReadOutcome::kExhausted;
    }
    if (!EmitGroup(limits, out)) return ReadOutcome::kMore;
    if (group_cut_) SeekTime(group_time_);  // makes another pass, which continues behind position_
    in_group_ = group_sorted_ = group_cut_ = false;
  }
}

bool SkipstreamReader::GatherGroup(std::size_t examined_end) {
  for (; cursor_.Valid(); cursor_.Next()) {
    const std::int64_t timestamp = cursor_.key().timestamp;
    if (in_group_ && timestamp != group_time_) break;
    if (cursor_.examined() > examined_end) return false;
    if (!in_group_) {
      in_group_ = true;
      group_time_ = timestamp;
      group_.clear();
      arena_.clear();
      next_row_ = 0;
    }
    GatherRow();
  }
  if (!in_group_) return true;
  std::sort(group_.begin(), group_.end(),
            [](const GroupRow& a, const GroupRow& b) { return a.rank < b.rank; });
  group_sorted_ = true;
  return true;
}

void SkipstreamReader::GatherRow() {
  const DecodedValue& value = cursor_.value();
  const Rank rank{value.serial, value.index};
  const bool delivered = position_.kind == Position::Kind::kAfterMessage &&
                         position_.timestamp == group_time_ &&
                         rank <= Rank{position_.serial, position_.index};
  if (delivered || (group_cut_ && rank > ceiling_)) return;
  const std::size_t begin = arena_.size();
  topic_builder_.Build(cursor_.key().words, [&](std::string_view part) { arena_.append(part); });
  const std::size_t topic_size = arena_.size() - begin;
  const std::string_view wanted = WantedValue();
  arena_.append(wanted);
  group_.push_back({rank, begin, topic_size, wanted.size()});
  if (group_.size() > 1 && (group_.size() > group_rows_max_ || arena_.size() > group_bytes_max_)) {
    ShrinkGroup();
  }
}

void SkipstreamReader::ShrinkGroup() {
  std::sort(group_.begin(), group_.end(),
            [](const GroupRow& a, const GroupRow& b) { return a.rank < b.rank; });
  group_.resize((group_.size() + 1) / 2);
  group_cut_ = true;
  ceiling_ = group_.back().rank;
  std::string kept;
  for (GroupRow& row : group_) {
    const std::size_t begin = kept.size();
    kept.append(arena_, row.begin, row.topic_size + row.value_size);
    row.begin = begin;
  }
  arena_ = std::move(kept);
}

bool SkipstreamReader::EmitGroup(const ReadLimits& limits, Batch* out) {
  const std::string_view arena = arena_;
  for (; next_row_ < group_.size(); ++next_row_) {
    const GroupRow& row = group_[next_row_];
    if (!HasRoom(limits, *out, row.topic_size, row.value_size)) return false;
    out->Append({arena.substr(row.begin, row.topic_size), group_time_,
                 arena.substr(row.begin + row.topic_size, row.value_size)},
                row.rank.first);
    ++matched_;
    position_ = {Position::Kind::kAfterMessage, group_time_, row.rank.first, row.rank.second, {}};
  }
  return true;
}

}  // namespace topicdb::skipstream
