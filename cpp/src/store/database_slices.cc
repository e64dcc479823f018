// Plans and reads slices, for callers that read a database with many processes.
#include <algorithm>

#include "store/cursor/scan_impl.h"
#include "store/read/log_gaps.h"
#include "store/read/log_measure.h"
#include "store/read/slice_source.h"
#include "store/read/summary.h"
#include "topicdb/database.h"

namespace topicdb {

namespace {

Result<ShardMoment> MomentOf(const OpenShards& shards, const std::vector<ShardMoment>& moments,
                             std::uint32_t shard) {
  for (const ShardMoment& moment : moments) {
    if (moment.shard->index() == shard) return moment;
  }
  return shards.NotOpen(shard);
}

Result<const SlabView*> FindSlab(const ShardMoment& moment, const Slice& slice,
                                 const RetentionRules& rules) {
  TOPICDB_ASSIGN_OR_RETURN(const RetentionClassId index, rules.IndexOf(slice.retention_class));
  const SlabId id{slice.slab.shard, index, slice.slab.generation};
  const SlabView* const found = moment.view->Find(id);
  if (found == nullptr) {
    return NotFound(moment.view->Describe(id) + " is gone: it was dropped");
  }
  if (slice.until > moment.view->serial()) {
    return InvalidArgument(moment.shard->Name() + " is seen up to commit " +
                           std::to_string(moment.view->serial().value()) +
                           " here, a slice goes up to " + std::to_string(slice.until.value()) +
                           ": refresh() or open it again");
  }
  return found;
}

// Divides a slice into its runs of commits between the commits that are hidden.
std::vector<Slice> Seen(Slice whole, const std::vector<SerialRange>& hidden) {
  std::vector<Slice> parts;
  const auto add_until = [&](Serial until) {
    if (until <= whole.after) return;
    parts.push_back(whole);
    parts.back().until = until;
  };
  for (const SerialRange& serials : hidden) {
    add_until(std::min(whole.until, serials.first.Previous()));
    whole.after = std::max(whole.after, serials.last);
  }
  add_until(whole.until);
  return parts;
}

// Adds the slices of all slabs of a shard. Slabs without a log show hidden commits, too (MasksOf).
Status CutShard(const ShardView& view, RetentionClassId reserved,
                const std::vector<Filter>& filters, Slice whole, std::uint64_t bytes_max,
                std::vector<Slice>* slices) {
  for (const SlabView& slab_view : view.slabs()) {
    const Slab& slab = *slab_view.slab;
    if (slab.id().retention_class == reserved || !slab.MayHold(whole.range)) continue;
    if (!MayHaveCommits(view, slab, whole.after, whole.until)) continue;
    whole.slab = slab.id();
    whole.retention_class = view.ClassFilterOf(whole.slab);
    whole.layout = slab.layout_kind();
    const std::vector<Slice> parts =
        slab.log() == nullptr ? std::vector{whole} : Seen(whole, view.hidden());
    for (const Slice& part : parts) {
      auto cut = CutSlab(view, slab, filters, part, bytes_max);
      if (!cut.ok()) return cut.status().WithContext(view.Describe(slab.id()));
      slices->insert(slices->end(), cut->begin(), cut->end());
    }
  }
  return Status::Ok();
}

// Returns the parts of slices, as these moments show them.
Result<std::vector<SlicePart>> PartsOfAll(const DatabaseImpl& database,
                                          const std::vector<ShardMoment>& moments,
                                          const std::vector<Filter>& filters,
                                          const std::vector<Slice>& slices, bool with_values,
                                          bool with_topics) {
  std::vector<SlicePart> parts;
  for (const Slice& slice : slices) {
    TOPICDB_ASSIGN_OR_RETURN(const ShardMoment moment,
                             MomentOf(database.shards(), moments, slice.slab.shard));
    TOPICDB_ASSIGN_OR_RETURN(const SlabView* const found,
                             FindSlab(moment, slice, *database.environment().rules()));
    for (SlicePart& part :
         PartsOf(moment.view, found->slab, filters, slice, with_values, with_topics)) {
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

}  // namespace

Result<std::vector<Slice>> Database::Slices(const std::vector<Filter>& filters,
                                            const SliceOptions& options) const {
  TOPICDB_ENTER(impl_);
  if (options.bytes_max == 0) return InvalidArgument("bytes_max: at least 1 is needed, got 0");
  TOPICDB_RETURN_IF_ERROR(CheckShards("after", options.after, schema().shards));
  TOPICDB_RETURN_IF_ERROR(CheckShards("until", options.until, schema().shards));
  TOPICDB_RETURN_IF_ERROR(LeftOut(filters).status());
  const RetentionClassId reserved = impl_->environment().rules()->reserved();
  std::vector<Slice> slices;
  for (const ShardMoment& moment : impl_->shards().Moments()) {
    const std::uint32_t shard = moment.shard->index();
    Slice whole;
    whole.range = options.range;
    whole.after = SerialOf(options.after, shard, kNoSerial);
    whole.until = std::min(moment.view->serial(), SerialOf(options.until, shard, kLastSerial));
    if (whole.until <= whole.after) continue;
    TOPICDB_RETURN_IF_ERROR(
        CutShard(*moment.view, reserved, filters, whole, options.bytes_max, &slices));
  }
  return slices;
}

Result<std::unique_ptr<Scan>> Database::NewScan(const std::vector<Filter>& filters,
                                                const std::vector<Slice>& slices, bool with_values,
                                                bool with_topics) const {
  TOPICDB_ENTER(impl_);
  std::vector<ShardMoment> moments =
      impl_->shards().WholeMoments();  // what is seen was decided with them
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlicePart> parts,
                           PartsOfAll(*impl_, moments, filters, slices, with_values, with_topics));
  return std::make_unique<Scan>(std::make_shared<ScanImpl>(
      impl_, std::move(moments), std::make_unique<SliceSource>(std::move(parts))));
}

Result<std::vector<MessageGroup>> Database::Summarize(const std::vector<Filter>& filters,
                                                      const std::vector<Slice>& slices,
                                                      const SummaryOptions& options,
                                                      const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(CheckSummaryOptions(options));
  const std::vector<ShardMoment> moments = impl_->shards().WholeMoments();  // as for NewScan
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<SlicePart> parts,
                           PartsOfAll(*impl_, moments, filters, slices, /*with_values=*/false,
                                      /*with_topics=*/true));
  return SummarizeParts(parts, options, interrupted);
}

Result<CommitSpan> Database::MeasureLog(std::uint32_t shard, const std::vector<Filter>& filters,
                                        const CommitRange& range, const PageLimits& limits,
                                        const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(const ShardMoment moment,
                           MomentOf(impl_->shards(), impl_->shards().WholeMoments(), shard));
  return LogMeasure(*moment.view, filters, range, limits, interrupted).Run();
}

}  // namespace topicdb
