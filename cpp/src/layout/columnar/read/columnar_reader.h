// Reads a slab in its promised order: by (timestamp, serial, index in the batch).
#pragma once

#include "layout/columnar/merge/page_merge.h"
#include "layout/layout.h"

namespace topicdb::columnar {

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
  const bool is_empty_;
  PageMerge merge_;
};

// Appends the rows that fit into the limits, and returns their number.
std::size_t AppendRows(const PageMerge& merge, std::span<const MergedRow> rows,
                       const ReadLimits& limits, Batch* out);

}  // namespace topicdb::columnar
