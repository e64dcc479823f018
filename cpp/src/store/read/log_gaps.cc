#include "store/read/log_gaps.h"

#include <algorithm>
#include <utility>

namespace topicdb {

namespace {

using SlabPlace = std::vector<SlabView>::const_iterator;

bool IsUnlogged(const ShardView& view, const Slab& slab) {
  return slab.log() == nullptr && !view.IsReserved(slab.id());
}

// Returns a lower bound of the commits of a slab. What a merge has kept is from any commit.
Serial FirstCommitOf(const Slab& slab) {
  return slab.record().keep_last > 0 ? kNoSerial.Next() : slab.begun_at().Next();
}

// Returns an upper bound of the commits of a slab: a later generation of its class began then.
Serial LastCommitOf(SlabPlace slab, const std::vector<SlabView>& slabs) {
  for (auto later = std::next(slab); later != slabs.end(); ++later) {
    if (later->slab->id().retention_class != slab->slab->id().retention_class) break;
    // Slabs of an earlier TopicDB do not know when they began.
    if (later->slab->begun_at() != kNoSerial) return later->slab->begun_at();
  }
  return kLastSerial;
}

// Returns the first gap from a commit on for which holds(slab) returns true.
template <typename Holds>
std::optional<LogGap> FindGap(const ShardView& view, Serial from, Holds holds) {
  std::optional<LogGap> found;
  const std::vector<SlabView>& slabs = view.slabs();
  for (auto place = slabs.begin(); place != slabs.end(); ++place) {
    const Slab& slab = *place->slab;
    // Behind the last commit of the view, nothing is missing yet.
    if (!IsUnlogged(view, slab) || std::min(LastCommitOf(place, slabs), view.serial()) < from) {
      continue;
    }
    const Serial first = std::max(from, FirstCommitOf(slab));
    const bool is_later = found.has_value() && found->first <= first;
    if (!is_later && holds(slab)) found = {slab.id(), first};
  }
  return found;
}

}  // namespace

std::vector<LogWant> WantsOf(const std::vector<Filter>& filters, const TimeRange& range) {
  std::vector<LogWant> wants;
  wants.reserve(filters.size());
  for (const Filter& filter : filters) wants.push_back({filter, range});
  return wants;
}

std::optional<LogGap> LogGaps::FindWanted(const ShardView& view, Serial from,
                                          const IsGiven& is_given) {
  return FindGap(view, from, [&](const Slab& slab) {
    return MayWant(slab) && (is_given == nullptr || !is_given(slab));
  });
}

std::optional<LogGap> LogGaps::FindAny(const ShardView& view, Serial from) {
  return FindGap(view, from, [](const Slab& slab) { return slab.MayHold({}); });
}

bool LogGaps::MayWant(const Slab& slab) {
  const StreamId last = slab.LastStreamMax();
  const auto known = unwanted_.find(slab.id());
  const StreamId first = known == unwanted_.end() ? kNoStream : known->second;
  if (last <= first) return false;
  bool matches_any = false;
  for (const LogWant& want : wants_) {
    for (const auto& [structure, stream] : slab.Match(want.filter)) {
      if (stream <= first || !RowFilter::Make(structure, want.filter).has_value()) continue;
      if (slab.MayHold(want.range)) return true;
      matches_any = true;
    }
  }
  if (!matches_any) unwanted_[slab.id()] = last;
  return false;
}

Serial LastCommitOf(const ShardView& view, const Slab& slab) {
  const Serial last = LastCommitOf(PlaceOf(slab.id(), view.slabs()), view.slabs());
  return std::min(last, view.serial());
}

bool MayHaveCommits(const ShardView& view, const Slab& slab, Serial after, Serial until) {
  return LastCommitOf(view, slab) > after && FirstCommitOf(slab) <= until;
}

Status NoLog(const ShardView& view, const SlabId& slab) {
  const SlabView* const found = view.Find(slab);
  const LayoutKind layout = found == nullptr ? LayoutKind::kSkipstream : found->slab->layout_kind();
  return SchemaFault(view.Describe(slab) + " has the layout '" + NameOf(layout) +
                     "', which keeps no commit log: read it with a scan, and the log before and "
                     "behind it");
}

Status CheckLogFrom(const ShardView& view, const RetentionRules& rules,
                    const std::vector<LogWant>& wants, Serial from, Serial until,
                    const IsGiven& is_given) {
  from = std::max(from, kNoSerial.Next());
  if (until < from) return Status::Ok();
  const std::optional<LogGap> gap = LogGaps(wants).FindWanted(view, from, is_given);
  if (gap.has_value() && gap->first <= from) return NoLog(view, gap->slab);
  for (const SlabView& current : view.current()) {
    const Slab& slab = *current.slab;
    if (!IsUnlogged(view, slab) || slab.begun_at() >= from) continue;
    const bool takes_any = std::any_of(wants.begin(), wants.end(), [&](const LogWant& want) {
      return rules.MayTake(slab.id().retention_class, want.filter);
    });
    if (takes_any) return NoLog(view, slab.id());
  }
  return Status::Ok();
}

}  // namespace topicdb
