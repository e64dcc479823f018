#include "subscribe/page_reader.h"

#include <algorithm>
#include <utility>

namespace topicdb {

namespace {

// How many bytes of decoded pages one cursor may have open. A track keeps at most five cursors.
constexpr std::size_t kCursorBytes = std::size_t{32} << 20;

LogQuery QueryOf(const InterestSet& interests, std::shared_ptr<const GivenReads> given,
                 const CommitPlace& from) {
  LogQuery query;
  query.filters = interests.filters();
  if (interests.timestamp_min() > 0) query.range.start = interests.timestamp_min();
  query.from = from;
  query.memory_bytes_max = kCursorBytes;
  query.given = std::move(given);
  return query;
}

}  // namespace

PageReader::Kept PageReader::Take(const std::shared_ptr<const InterestSet>& interests,
                                  const std::shared_ptr<const GivenReads>& given,
                                  const CommitPlace& from) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.cursor.place() == from && kept.given == given &&
           kept.interests->ReadsLike(*interests);
  });
  if (found == kept_.end()) return {interests, given, LogCursor(QueryOf(*interests, given, from))};
  Kept kept = std::move(*found);
  kept_.erase(found);
  return kept;
}

std::shared_ptr<LogGaps> PageReader::GapsOf(const std::shared_ptr<const InterestSet>& interests) {
  if (interests_.lock() != interests) {
    gaps_ = std::make_shared<LogGaps>(interests->LogWants());
    interests_ = interests;
  }
  return gaps_;
}

Result<std::shared_ptr<LogPage>> PageReader::Read(const std::shared_ptr<Shard>& shard,
                                                  std::shared_ptr<const InterestSet> interests,
                                                  const CommitPlace& from, const PageLimits& limits,
                                                  const InterruptCheck& interrupted,
                                                  std::shared_ptr<const GivenReads> given) {
  LogSpan span;
  span.shard = shard->index();
  span.from = from;
  span.given = given;
  {
    const MutexLock lock(mutex_);
    Kept kept = Take(interests, given, from);
    kept.cursor.LookWith(GapsOf(interests));
    auto batch = std::make_shared<Batch>(/*keeps_serials=*/true);
    auto rows = std::make_shared<LogRows>();
    TOPICDB_RETURN_IF_ERROR(
        kept.cursor.ReadMessages(shard, limits, interrupted, batch.get(), &rows->indexes));
    rows->batch = std::move(batch);
    span.rows = std::move(rows);
    span.to = kept.cursor.place();
    span.at_end = kept.cursor.at_end();
    span.passed_unlogged = kept.cursor.passed_unlogged();
    span.removals_version = kept.cursor.removals_version();
    span.view_serial = kept.cursor.view_serial();
    if (!span.at_end) kept_.push_front(std::move(kept));  // at the end it holds nothing
    if (kept_.size() > cursors_max_) kept_.pop_back();
  }
  return std::make_shared<LogPage>(std::move(interests), std::move(span));
}

void PageReader::Clear() {
  const MutexLock lock(mutex_);
  kept_.clear();
  interests_.reset();
  gaps_.reset();
}

}  // namespace topicdb
