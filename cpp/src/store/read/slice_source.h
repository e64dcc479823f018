// Reads slices one after the other. Their messages come in no order.
#pragma once

#include <memory>
#include <vector>

#include "store/read/slice_plan.h"
#include "store/read/stream_sources.h"

namespace topicdb {

// A part of one slab, which one reader reads.
struct SlicePart {
  std::shared_ptr<const ShardView> view;
  std::shared_ptr<Slab> slab;
  std::vector<ReadRequest> requests;
};

// Returns the parts of a slice of this slab: one if the layout has blocks, and otherwise one for
// each stream. Returns none if there is surely nothing that matches a filter.
std::vector<SlicePart> PartsOf(const std::shared_ptr<const ShardView>& view,
                               const std::shared_ptr<Slab>& slab,
                               const std::vector<Filter>& filters, const Slice& slice,
                               bool with_values, bool with_topics = true);
// Opens a reader of a part. Its errors do not name the slab.
std::unique_ptr<StreamReader> OpenPart(const SlicePart& part);

// Reads its parts one after the other, each with one reader. A ScanImpl owns it. Not thread-safe.
class SliceSource : public MessageSource {
 public:
  explicit SliceSource(std::vector<SlicePart> parts) : parts_(std::move(parts)) {}
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;
  Result<ReadOutcome> ReadParcel(const ReadLimits& limits, ParcelBuilder* out) override;
  ReadCounters counters() const override;

 private:
  // Reads from the parts, one after the other, with read(reader). `reader` is an own one of the
  // part, which open() makes. Ends with the parts, or when is_full() is true at the end of one.
  template <typename Reader, typename Open, typename Step, typename IsFull>
  Result<ReadOutcome> ReadParts(std::unique_ptr<Reader>* reader, Open open, Step read,
                                IsFull is_full);

  const std::vector<SlicePart> parts_;
  std::size_t next_part_ = 0;
  ReadCounters counters_;                  // of the parts before next_part_
  std::unique_ptr<StreamReader> reader_;   // of the part at next_part_
  std::unique_ptr<ParcelSource> parcels_;  // the same, for ReadParcel
};

}  // namespace topicdb
