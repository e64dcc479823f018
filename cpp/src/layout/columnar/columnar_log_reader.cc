#include "layout/columnar/columnar_log_reader.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kExaminedMax = 100'000;  // between two looks whether to stop

CommitPlace PlaceOf(const MergedRow& row) {
  return {row.key.major, static_cast<std::uint32_t>(row.key.middle)};
}

}  // namespace

Result<std::optional<CommitPlace>> ColumnarLogReader::Head(const InterruptCheck& interrupted) {
  if (is_ready_ && next_ < rows_.size()) return std::optional(PlaceOf(rows_[next_]));
  if (is_ready_) merge_.Consume(next_);
  is_ready_ = false;
  next_ = 0;
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const PageMerge::State state, merge_.Prepare(kExaminedMax));
    if (state == PageMerge::State::kExhausted) return std::optional<CommitPlace>();
    if (state == PageMerge::State::kReady) break;
    if (interrupted && interrupted()) return Interrupted();
  }
  rows_ = merge_.Ready();
  is_ready_ = true;
  return std::optional(PlaceOf(rows_.front()));
}

void ColumnarLogReader::Read(const CommitPlace& until, Batch* out) {
  for (; next_ < rows_.size() && PlaceOf(rows_[next_]) < until; ++next_) {
    merge_.FetchAhead(rows_, next_);
    const MergedRow& row = rows_[next_];
    const Page& page = merge_.page(row);
    out->Append({page.topic(page.topic_of(row.row)), page.time(row.row), page.value(row.row)},
                page.serial(row.row));
  }
}

}  // namespace topicdb::columnar
