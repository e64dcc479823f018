// Reads a slab in its promised order: by (timestamp, serial, index in the batch).
#pragma once

#include "layout/columnar/merge/page_merge.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Reads the messages of one request by a merge in the order of time. The caller of NewReader owns
// it. Not thread-safe.
class ColumnarReader : public StreamReader {
 public:
  ColumnarReader(const RocksSource& source, ReadRequest request);

  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;
  const Position& position() const override { return position_; }
  ReadCounters counters() const override { return merge_.counters(); }

 private:
  // Appends the first of `rows` that lie in one piece in their page, without copying their values.
  // Returns their number, or 0 if that is not worth it.
  std::size_t EmitWhole(std::span<const MergedRow> rows, const ReadLimits& limits, Batch* out);

  Position position_;
  const bool is_empty_;  // if true, the range contains no time
  PageMerge merge_;
};

// Copies the first of `rows` to `out`, as many as the limits admit, and returns their number.
// REQUIRES: `merge` has made the rows ready; at least one row
std::size_t AppendRows(const PageMerge& merge, std::span<const MergedRow> rows,
                       const ReadLimits& limits, Batch* out);

}  // namespace topicdb::columnar
