#include "layout/columnar/read/columnar_log_reader.h"

#include <algorithm>

#include "layout/columnar/format/page_rows.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kExaminedMax = 100'000;  // rows between two calls of `interrupted`

CommitPlace PlaceOf(const MergedRow& row) {
  return {Serial{row.key.major}, static_cast<std::uint32_t>(row.key.middle)};
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

std::size_t ColumnarLogReader::EndOf(const CommitPlace& until) const {
  const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto end = std::partition_point(begin, rows_.end(),
                                        [&](const MergedRow& row) { return PlaceOf(row) < until; });
  return static_cast<std::size_t>(end - rows_.begin());
}

void ColumnarLogReader::Read(const CommitPlace& until, const LogRoom& room, Batch* out,
                             std::vector<std::uint32_t>* indexes) {
  const std::size_t begin = next_;
  const std::size_t rows_max = room.rows_max - std::min(room.rows_max, out->size());
  const std::size_t end =
      begin + std::min(EndOf(until) - begin, std::max<std::size_t>(rows_max, 1));
  if (end == begin) return;
  ReserveLike(merge_.page(rows_[begin]), end - begin,
              std::min(room.bytes_max, Batch::kColumnBytesMax), out);
  for (; next_ < end && (next_ == begin || out->bytes() < room.bytes_max); ++next_) {
    merge_.FetchAhead(rows_, next_);
    const MergedRow& row = rows_[next_];
    const Page& page = merge_.page(row);
    out->Append({page.topic(page.topic_of(row.row)), page.time(row.row), page.value(row.row)},
                PlaceOf(row).serial);
    if (indexes != nullptr) indexes->push_back(PlaceOf(row).index);
  }
}

}  // namespace topicdb::columnar
