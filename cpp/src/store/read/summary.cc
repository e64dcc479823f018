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

// Counts the messages of a slab with blocks that any of the requests wants.
Status AddBlocks(const ShardView& view, Slab* slab, std::vector<ReadRequest> any_of,
                 const InterruptCheck& interrupted, MessageGroups* groups) {
  const bool wants_all = std::any_of(any_of.begin(), any_of.end(), [&](const ReadRequest& one) {
    return MatchesAllOf(*slab, one.filter);
  });
  if (wants_all) {  // whole blocks can be counted if one request says so
    any_of.resize(1);
    any_of.front().streams.reset();
    any_of.front().filter = Filter::Everything();
  }
  auto counters = SummarizeBlocks(view.Source(*slab), any_of, interrupted, groups);
  if (!counters.ok()) return counters.status().WithContext(view.Describe(slab->id()));
  slab->AddReads(*counters);
  return Status::Ok();
}

// Counts the messages that a reader of a slab without blocks gives.
Status AddMessages(StreamReader* reader, const InterruptCheck& interrupted, MessageGroups* groups) {
  for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
    if (interrupted && interrupted()) return Interrupted();
    Batch batch;
    TOPICDB_ASSIGN_OR_RETURN(outcome, reader->Read(kReadLimits, &batch));
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const std::int64_t time = batch.timestamps()[row];
      groups->CountOf(batch.topic(row), time).Add(1, time, time);
    }
    groups->AddRead(batch.size());
    TOPICDB_RETURN_IF_ERROR(groups->CheckSize());
  }
  return Status::Ok();
}

Status AddTarget(const StreamTarget& target, const TimeRange& range,
                 const InterruptCheck& interrupted, MessageGroups* groups) {
  if (target.slab->log() == nullptr) {
    return AddMessages(OpenUnordered(target, range).get(), interrupted, groups);
  }
  return AddBlocks(*target.view, target.slab.get(), RequestsFor(target, range), interrupted,
                   groups);
}

Status AddPart(const SlicePart& part, const InterruptCheck& interrupted, MessageGroups* groups) {
  if (part.slab->log() != nullptr) {
    return AddBlocks(*part.view, part.slab.get(), part.requests, interrupted, groups);
  }
  const std::unique_ptr<StreamReader> reader = OpenPart(part);
  Status status = AddMessages(reader.get(), interrupted, groups);
  if (!status.ok()) return status.WithContext(part.view->Describe(part.slab->id()));
  part.slab->AddReads(reader->counters());
  return status;
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

Result<std::vector<MessageGroup>> SummarizeParts(const std::vector<SlicePart>& parts,
                                                 const SummaryOptions& options,
                                                 const InterruptCheck& interrupted) {
  MessageGroups groups(options);
  for (const SlicePart& part : parts) {
    TOPICDB_RETURN_IF_ERROR(AddPart(part, interrupted, &groups));
  }
  return groups.Sorted();
}

}  // namespace topicdb
