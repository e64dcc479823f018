#include "store/delete_expander.h"

#include "commit/key_range.h"
#include "rocks/rocks_compat.h"
#include "store/point_lookup.h"
#include "store/stream_plan.h"

namespace topicdb {

namespace {
constexpr ReadLimits kPage{1'000, std::size_t{4} << 20, std::numeric_limits<std::size_t>::max()};
}  // namespace

Result<bool> DeleteExpander::Remove(const meta::DeleteRecord& record, bool masked) {
  if (IsPoint(record.keys)) {
    TOPICDB_RETURN_IF_ERROR(RemovePoint(record, masked));
    return true;
  }
  for (const SlabView& view : *shard_.slabs_) {
    const Slab& slab = *view.slab;
    if (!record.Covers(slab.id())) continue;
    if (!slab.MayHold(record.keys.range)) continue;
    for (auto& [structure, stream] : slab.Match(record.keys.filter)) {
      std::optional<RowFilter> filter = RowFilter::Make(structure, record.keys.filter);
      if (!filter.has_value()) continue;
      ReadRequest request{stream,     structure, std::move(*filter), record.keys.range,
                          Position(), {},        record.serial};
      request.position.timestamp = record.keys.range.start.value_or(0);
      if (masked) request.masks = MasksOf(*shard_.deletes_, slab.id(), structure);
      TOPICDB_ASSIGN_OR_RETURN(const bool complete, RemoveFromStream(slab, request));
      if (!complete) return false;
    }
  }
  return true;
}

// Without the iterators that a range takes.
Status DeleteExpander::RemovePoint(const meta::DeleteRecord& record, bool masked) {
  const std::string& topic = record.keys.filter.text();
  const std::int64_t timestamp = record.keys.range.start.value_or(0);
  std::vector<std::string_view> varying;
  for (const SlabView& view : *shard_.slabs_) {
    const Slab& slab = *view.slab;
    if (!record.Covers(slab.id())) continue;
    if (slab.timestamp_bytes() == 0 && timestamp != 0) continue;
    const NodeId stream = slab.FindStream(topic, &varying);
    if (stream == kNoNode) continue;
    const PlacedMessage place{stream, varying, timestamp, 0, 0, {}};
    const RocksSource source{shard_.db_.get(), nullptr, slab.family()};
    TOPICDB_ASSIGN_OR_RETURN(const auto found, slab.layout().Get(source, place));
    if (!found.has_value() || found->serial > record.serial) continue;
    if (masked && IsHidden(*shard_.deletes_, slab.id(), topic, timestamp, found->serial)) continue;
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(slab.layout().Delete(place, slab.family(), batch_), "preparing a delete"));
    ++removed_;
  }
  return Status::Ok();
}

Result<bool> DeleteExpander::RemoveFromStream(const Slab& slab, const ReadRequest& request) {
  const RocksSource source{shard_.db_.get(), nullptr, slab.family()};
  const auto reader = slab.layout().NewReader(source, request);
  std::vector<std::string_view> varying;
  for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
    Batch page;
    TOPICDB_ASSIGN_OR_RETURN(outcome, reader->Read(kPage, &page));
    for (std::size_t row = 0; row < page.size(); ++row) {
      if (removed_ >= removed_max_) return false;
      VaryingWords(request.structure, page.topic(row), &varying);
      const PlacedMessage place{request.stream, varying, page.timestamp(row), 0, 0, {}};
      TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(slab.layout().Delete(place, slab.family(), batch_),
                                               "preparing a delete"));
      ++removed_;
    }
  }
  return true;
}

}  // namespace topicdb
