#include "store/read/slice_source.h"

#include <utility>

namespace topicdb {

std::vector<SlicePart> PartsOf(const std::shared_ptr<const ShardView>& view,
                               const std::shared_ptr<Slab>& slab,
                               const std::vector<Filter>& filters, const Slice& slice,
                               bool with_values, bool with_topics) {
  std::vector<ReadRequest> requests = RequestsOf(*view, *slab, filters, slice);
  if (requests.empty()) return {};
  for (ReadRequest& request : requests) {
    request.with_values = with_values;
    request.with_topics = with_topics;
  }
  std::vector<SlicePart> parts;
  if (!slab->layout().reads_one_stream()) {
    parts.push_back({view, slab, std::move(requests)});
    return parts;
  }
  for (ReadRequest& request : requests) parts.push_back({view, slab, {std::move(request)}});
  return parts;
}

std::unique_ptr<StreamReader> OpenPart(const SlicePart& part) {
  const RocksSource source = part.view->Source(*part.slab);
  return part.slab->layout().reads_one_stream()
             ? part.slab->layout().NewReader(source, part.requests.front())
             : NewUnorderedReader(source, part.requests);
}

ReadCounters SliceSource::counters() const {
  ReadCounters counters = counters_;
  if (reader_ != nullptr) counters.Add(reader_->counters());
  return counters;
}

Result<ReadOutcome> SliceSource::Read(const ReadLimits& limits, Batch* out) {
  while (next_part_ < parts_.size()) {
    const SlicePart& part = parts_[next_part_];
    if (reader_ == nullptr) reader_ = OpenPart(part);
    auto outcome = reader_->Read(limits, out);
    if (!outcome.ok()) return outcome.status().WithContext(part.view->Describe(part.slab->id()));
    if (*outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
    part.slab->AddReads(reader_->counters());
    counters_.Add(reader_->counters());
    reader_.reset();
    ++next_part_;
    if (out->size() >= limits.rows_max || out->bytes() >= limits.bytes_max) {
      return ReadOutcome::kMore;
    }
  }
  return ReadOutcome::kExhausted;
}

}  // namespace topicdb
