#include "store/read/slice_source.h"

namespace topicdb {

Result<ReadOutcome> SliceSource::Read(const ReadLimits& limits, Batch* out) {
  while (next_part_ < parts_.size()) {
    const SlicePart& part = parts_[next_part_];
    if (reader_ == nullptr) {
      const RocksSource source = part.view->Source(*part.slab);
      reader_ = part.slab->layout().reads_one_stream()
                    ? part.slab->layout().NewReader(source, part.requests.front())
                    : NewUnorderedReader(source, part.requests);
    }
    auto outcome = reader_->Read(limits, out);
    if (!outcome.ok()) return outcome.status().WithContext(part.view->Describe(part.slab->id()));
    if (*outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
    part.slab->AddReads(reader_->counters());
    reader_.reset();
    ++next_part_;
    if (out->size() >= limits.rows_max || out->bytes() >= limits.bytes_max) {
      return ReadOutcome::kMore;
    }
  }
  return ReadOutcome::kExhausted;
}

}  // namespace topicdb
