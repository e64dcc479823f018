#include "store/read/summary.h"

#include <algorithm>
#include <memory>
#include <string>

#include "layout/blocks.h"
#include "layout/message_groups.h"

namespace topicdb {

namespace {

// The limits of one read of a slab without blocks.
constexpr ReadLimits kReadLimits{10'000, std::size_t{4} << 20, 100'000};

// To ask about the structures of more streams than this costs more than it saves.
constexpr StreamId kStreamsAskedMax{10'000};

// Returns whether a filter surely matches all topics of a slab.
bool MatchesAllOf(const Slab& slab, const Filter& filter) {
  if (filter.is_everything()) return true;
  if (slab.LastStreamMax() > kStreamsAskedMax) return false;
  const auto structures = slab.Match(Filter::Everything());
  return std::all_of(structures.begin(), structures.end(), [&](const auto& structure) {
    const auto rest = RowFilter::Make(structure.first, filter);
    return rest.has_value() && rest->MatchesAll();
  });
}

// Returns what to read of a slab with blocks. If every topic is wanted, the requests say so,
// because whole blocks can be counted then.
std::vector<ReadRequest> SummaryRequests(const StreamTarget& target, const TimeRange& range) {
  const auto all = [&](const Filter& filter) { return MatchesAllOf(*target.slab, filter); };
  if (std::none_of(target.filters.begin(), target.filters.end(), all)) {
    return RequestsFor(target, range);
  }
  StreamTarget whole = target;
  whole.set = {};
  whole.filters = {Filter::Everything()};
  return RequestsFor(whole, range);
}

// Counts the messages of a target whose slab has no blocks: reads all of them.
Status AddMessages(const StreamTarget& target, const TimeRange& range,
                   const InterruptCheck& interrupted, MessageGroups* groups) {
  const std::unique_ptr<StreamReader> reader = OpenUnordered(target, range);
  for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
    if (interrupted && interrupted()) return Interrupted();
    Batch batch;
    TOPICDB_ASSIGN_OR_RETURN(outcome, reader->Read(kReadLimits, &batch));
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const std::int64_t time = batch.timestamps()[row];
      groups->CountOf(batch.topic(row), time).Add(1, time, time);
    }
    TOPICDB_RETURN_IF_ERROR(groups->CheckSize());
  }
  return Status::Ok();
}

Status AddTarget(const StreamTarget& target, const TimeRange& range,
                 const InterruptCheck& interrupted, MessageGroups* groups) {
  const Slab& slab = *target.slab;
  if (slab.log() == nullptr) return AddMessages(target, range, interrupted, groups);
  auto counters = SummarizeBlocks(target.view->Source(slab), SummaryRequests(target, range),
                                  interrupted, groups);
  if (!counters.ok()) return counters.status().WithContext(target.view->Describe(slab.id()));
  target.slab->AddReads(*counters);
  return Status::Ok();
}

}  // namespace

Status CheckSummaryOptions(const SummaryOptions& options) {
  if (options.groups_max == 0) return InvalidArgument("groups_max: at least 1 is needed, got 0");
  if (!options.span.has_value()) return Status::Ok();
  if (*options.span >= 1 && *options.span <= SummaryOptions::kSpanMax) return Status::Ok();
  return InvalidArgument("span: expected 1 to " + std::to_string(SummaryOptions::kSpanMax) +
                         " microseconds, got " + std::to_string(*options.span));
}

Result<std::vector<MessageGroup>> SummarizeTargets(const std::vector<StreamTarget>& targets,
                                                   const TimeRange& range,
                                                   const SummaryOptions& options,
                                                   const InterruptCheck& interrupted) {
  MessageGroups groups(options);
  for (const StreamTarget& target : targets) {
    TOPICDB_RETURN_IF_ERROR(AddTarget(target, range, interrupted, &groups));
  }
  return groups.Sorted();
}

}  // namespace topicdb
