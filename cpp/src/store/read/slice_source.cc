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

namespace {

// Makes pages of the messages that another reader gives. For layouts without blocks. A SliceSource
// owns it. Not thread-safe.
class BatchParcels : public ParcelSource {
 public:
  BatchParcels(std::unique_ptr<StreamReader> reader, bool with_values)
      : reader_(std::move(reader)), with_values_(with_values) {}

  Result<ReadOutcome> ReadParcel(const ReadLimits& limits, ParcelBuilder* out) override {
    return ReadAsPage(reader_.get(), limits, with_values_, out);
  }
  ReadCounters counters() const override { return reader_->counters(); }

 private:
  const std::unique_ptr<StreamReader> reader_;
  const bool with_values_;
};

std::unique_ptr<ParcelSource> OpenParcels(const SlicePart& part) {
  if (part.slab->layout().reads_one_stream()) {
    return std::make_unique<BatchParcels>(OpenPart(part), part.requests.front().with_values);
  }
  return NewParcelSource(part.view->Source(*part.slab), part.requests);
}

}  // namespace

ReadCounters SliceSource::counters() const {
  ReadCounters counters = counters_;
  if (reader_ != nullptr) counters.Add(reader_->counters());
  if (parcels_ != nullptr) counters.Add(parcels_->counters());
  return counters;
}

template <typename Reader, typename Open, typename Step, typename IsFull>
Result<ReadOutcome> SliceSource::ReadParts(std::unique_ptr<Reader>* reader, Open open, Step read,
                                           IsFull is_full) {
  while (next_part_ < parts_.size()) {
    const SlicePart& part = parts_[next_part_];
    if (*reader == nullptr) *reader = open(part);
    auto outcome = read(reader->get());
    if (!outcome.ok()) return outcome.status().WithContext(part.view->Describe(part.slab->id()));
    if (*outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
    part.slab->AddReads((*reader)->counters());
    counters_.Add((*reader)->counters());
    reader->reset();
    ++next_part_;
    if (is_full()) return ReadOutcome::kMore;
  }
  return ReadOutcome::kExhausted;
}

Result<ReadOutcome> SliceSource::Read(const ReadLimits& limits, Batch* out) {
  return ReadParts(
      &reader_, &OpenPart, [&](StreamReader* reader) { return reader->Read(limits, out); },
      [&] { return out->size() >= limits.rows_max || out->bytes() >= limits.bytes_max; });
}

Result<ReadOutcome> SliceSource::ReadParcel(const ReadLimits& limits, ParcelBuilder* out) {
  return ReadParts(
      &parcels_, &OpenParcels,
      [&](ParcelSource* reader) { return reader->ReadParcel(limits, out); },
      [&] { return out->bytes() >= limits.bytes_max; });
}

}  // namespace topicdb
