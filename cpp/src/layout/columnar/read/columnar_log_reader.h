// Reads a slab in the order of its commits.
#pragma once

#include "layout/columnar/merge/page_merge.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Reads the messages of one request by a merge in the order of serials. The caller of NewLogReader
// owns it. Not thread-safe.
class ColumnarLogReader : public LogReader {
 public:
  ColumnarLogReader(const RocksSource& source, const ReadRequest& request, Serial serial_min)
      : merge_(source, request, MergeOrder::kSerial, std::nullopt, serial_min) {}

  Result<std::optional<CommitPlace>> Head(const InterruptCheck& interrupted) override;
  void Read(const CommitPlace& until, const LogRoom& room, Batch* out,
            std::vector<std::uint32_t>* indexes) override;
  void Skip(const CommitPlace& until) override { next_ = EndOf(until); }

 private:
  // Returns the index in rows_, at or behind next_, of the first row that is not before `until`.
  std::size_t EndOf(const CommitPlace& until) const;

  PageMerge merge_;
  bool is_ready_ = false;  // if true, rows_ are the ready rows of the merge
  std::span<const MergedRow> rows_;
  std::size_t next_ = 0;  // index in rows_
};

}  // namespace topicdb::columnar
