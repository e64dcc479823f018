#include "layout/columnar/read/columnar_reader.h"

#include <algorithm>

#include "layout/columnar/format/page_rows.h"

namespace topicdb::columnar {

namespace {

// Once a batch has this many rows, the read ends instead of adding rows of another run. To enlarge
// the batch would copy all of its rows.
constexpr std::size_t kEnoughRows = 4'096;

std::optional<RowKey> KeyBehind(const Position& position) {
  if (position.kind != Position::Kind::kAfterMessage) return std::nullopt;
  return RowKey{static_cast<std::uint64_t>(position.timestamp), position.serial.value(),
                position.index};
}

ReadRequest FromPosition(ReadRequest request) {
  request.range.start = std::max(request.range.start.value_or(0), request.position.timestamp);
  return request;
}

}  // namespace

ColumnarReader::ColumnarReader(const RocksSource& source, ReadRequest request)
    : position_(request.position),
      is_empty_(request.range.end.has_value() &&
                request.range.start.value_or(0) >= *request.range.end),
      merge_(source, FromPosition(request), MergeOrder::kTime, KeyBehind(request.position)) {}

Result<ReadOutcome> ColumnarReader::Read(const ReadLimits& limits, Batch* out) {
  if (is_empty_) return ReadOutcome::kExhausted;
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const PageMerge::State state, merge_.Prepare(limits.examined_max));
    if (state == PageMerge::State::kExhausted) return ReadOutcome::kExhausted;
    if (state == PageMerge::State::kPaused) return ReadOutcome::kMore;
    const std::span<const MergedRow> rows = merge_.Ready();
    const std::size_t whole = EmitWhole(rows, limits, out);
    const std::size_t count = whole > 0 ? whole : AppendRows(merge_, rows, limits, out);
    if (count > 0) {
      const RowKey& last = rows[count - 1].key;
      position_ = {Position::Kind::kAfterMessage,
                   static_cast<std::int64_t>(last.major),
                   Serial{last.middle},
                   last.minor,
                   {}};
    }
    const bool is_full = count < rows.size() || whole > 0 || out->size() >= kEnoughRows;
    merge_.Consume(count);
    if (is_full) return ReadOutcome::kMore;
  }
}

std::size_t ColumnarReader::EmitWhole(std::span<const MergedRow> rows, const ReadLimits& limits,
                                      Batch* out) {
  const MergedRow& first = rows.front();
  const auto follows = [&](std::uint32_t row) {
    const std::size_t i = row - first.row;
    return i < rows.size() && rows[i].slot == first.slot && rows[i].row == row;
  };
  return LendRows(merge_.shared_page(first), first.row, limits, /*with_topics=*/true, follows, out);
}

std::size_t AppendRows(const PageMerge& merge, std::span<const MergedRow> rows,
                       const ReadLimits& limits, Batch* out) {
  const Page& sample = merge.page(rows.front());
  const std::size_t rows_left = limits.rows_max - std::min(limits.rows_max, out->size());
  const std::size_t expected = std::min(rows.size(), std::max<std::size_t>(rows_left, 1));
  ReserveLike(sample, expected, limits.bytes_max, out);
  RowCopier copier(limits, out);
  std::size_t count = 0;
  for (; count < rows.size(); ++count) {
    merge.FetchAhead(rows, count);
    const MergedRow& row = rows[count];
    if (!copier.Append(merge.page(row), row.row)) break;
  }
  return count;
}

}  // namespace topicdb::columnar
