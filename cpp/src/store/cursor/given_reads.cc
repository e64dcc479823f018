#include "store/cursor/given_reads.h"

#include <algorithm>
#include <utility>

#include "store/read/drop_summary.h"
#include "store/shard/shard.h"

namespace topicdb {

namespace {

// Returns the commits up to `seen` that are not among the hidden ones.
std::vector<SerialRange> Visible(Serial seen, const std::vector<SerialRange>& hidden) {
  std::vector<SerialRange> visible;
  Serial first{1};
  for (const SerialRange& serials : hidden) {
    if (serials.first > first && first <= seen) {
      visible.push_back({first, std::min(seen, serials.first.Previous())});
    }
    first = std::max(first, BehindCommit(serials.last).serial);
  }
  if (first <= seen) visible.push_back({first, seen});
  return visible;
}

// Adds masks that hide those of the commits that stand up to a position.
void AddMasksUpTo(const Position& position, const Filter& filter, const SerialRange& commits,
                  std::vector<RowMask>* masks) {
  const auto& [first, last] = commits;
  if (position.timestamp > 0) {
    masks->push_back({filter, {std::nullopt, position.timestamp}, last, first});
  }
  if (position.kind != Position::Kind::kAfterMessage || position.serial < first) return;
  const TimeRange instant = Instant(position.timestamp);
  if (position.serial > last) {
    masks->push_back({filter, instant, last, first});
  } else {
    masks->push_back({filter, instant, position.serial, first, position.index});
  }
}

// Checks that an iterator does not stand in a slab without a log, where it has messages to give.
Status CheckHasLog(const ShardView& view, const Slab& slab, const Iterator& iterator) {
  if (slab.log() != nullptr || view.IsReserved(slab.id())) return Status::Ok();
  const bool is_at_end = iterator.exhausted && !iterator.end.has_value();
  if (is_at_end && iterator.seen >= LastCommitOf(view, slab)) return Status::Ok();
  return SchemaFault(view.Describe(slab.id()) + " has the layout '" + NameOf(slab.layout_kind()) +
                     "', which keeps no commit log: read it to its end with the iterator that "
                     "stands in it, and the log behind it");
}

Status CheckStream(const ShardMoment& moment, const Iterator& iterator) {
  const ShardView& view = *moment.view;
  if (iterator.seen > view.serial()) {
    return InvalidArgument(moment.shard->Name() + " is seen up to commit " +
                           std::to_string(view.serial().value()) + " here, an iterator up to " +
                           std::to_string(iterator.seen.value()) + ": refresh() or open it again");
  }
  const SlabView* const slab = view.Find(iterator.slab);
  if (slab == nullptr) return Status::Ok();
  if (!slab->slab->StructureOf(iterator.stream).has_value()) {
    return NotFound("there is no stream " + std::to_string(iterator.stream.value()) + " in " +
                    view.Describe(iterator.slab));
  }
  return CheckHasLog(view, *slab->slab, iterator);
}

}  // namespace

void GivenReads::Read::AddMasks(std::vector<RowMask>* masks) const {
  for (const SerialRange& commits : Visible(iterator.seen, iterator.hidden)) {
    if (iterator.exhausted && !iterator.end.has_value()) {
      masks->push_back({filter, {}, commits.last, commits.first});
    } else {
      AddMasksUpTo(iterator.position, filter, commits, masks);
    }
  }
}

bool GivenReads::Read::GaveAll(const std::vector<Filter>& filters) const {
  if (!iterator.exhausted || iterator.end.has_value() || !iterator.hidden.empty()) return false;
  // A structure that begins with a wildcard may have topics that begin with '$', too.
  const Result<Filter> topics = Filter::Parse(iterator.structure);
  if (topics.ok() && !topics->begins_with_wildcard() && filter.Covers(*topics)) return true;
  return std::all_of(filters.begin(), filters.end(),
                     [&](const Filter& wanted) { return filter.Covers(wanted); });
}

bool GivenReads::ReadsOfClass::StandsIn(Generation generation) const {
  return std::any_of(reads.begin(), reads.end(),
                     [&](const Read& read) { return read.iterator.slab.generation == generation; });
}

bool GivenReads::ReadsOfClass::Covers(const Filter& wanted) const {
  return std::any_of(reads.begin(), reads.end(),
                     [&](const Read& read) { return read.filter.Covers(wanted); });
}

bool GivenReads::ReadsOfClass::CoverAll(const std::vector<Filter>& filters) const {
  return std::all_of(filters.begin(), filters.end(),
                     [&](const Filter& wanted) { return Covers(wanted); });
}

Result<std::shared_ptr<const GivenReads>> GivenReads::Make(const ShardMoment& moment,
                                                           const RetentionRules& rules,
                                                           const std::vector<Iterator>& iterators) {
  std::shared_ptr<GivenReads> given(new GivenReads());
  given->shard_ = moment.shard->index();
  given->began_ = moment.view->serial();
  for (Iterator iterator : iterators) {
    TOPICDB_RETURN_IF_ERROR(CheckStream(moment, iterator));
    TOPICDB_ASSIGN_OR_RETURN(Filter filter, Filter::Parse(iterator.filter));
    const RetentionRule* const rule = rules.Find(iterator.slab.retention_class);
    if (rule == nullptr) {
      return NotFound("an iterator is of a class that " + moment.shard->Name() + " does not have");
    }
    // An iterator that an earlier version has stored does not say what it had seen, so it has given
    // nothing that stands before its position now.
    const bool is_old = iterator.seen == kNoSerial;
    given->counted_ = std::min(given->counted_, is_old ? iterator.position.serial : iterator.seen);
    if (is_old) iterator.seen = given->began_;
    given->seen_ = std::max(given->seen_, iterator.seen);
    const Generation generation = iterator.slab.generation;
    const auto [found, is_first] = given->classes_.try_emplace(rule->id);
    ReadsOfClass& of_class = found->second;
    of_class.filter = rule->filter.text();
    of_class.oldest = is_first ? generation : std::min(of_class.oldest, generation);
    of_class.reads.push_back({std::move(iterator), std::move(filter)});
  }
  TOPICDB_RETURN_IF_ERROR(given->Check(*moment.view));
  return std::shared_ptr<const GivenReads>(std::move(given));
}

Status GivenReads::Check(const ShardView& view) const {
  for (const auto& [retention_class, of_class] : classes_) {
    for (const Read& read : of_class.reads) {
      const SlabId& id = read.iterator.slab;
      if (view.Find(id) != nullptr) continue;
      for (auto after = PlaceOf(id, view.slabs()); after != view.slabs().end(); ++after) {
        if (after->slab->id().retention_class != retention_class) break;
        if (after->slab->record().keep_last == 0) continue;
        return NotFound(DescribeSlab(id, of_class.filter) +
                        " is gone: keep_last has merged it with others, so what an iterator has "
                        "given of it is not known any more");
      }
    }
  }
  return Status::Ok();
}

bool GivenReads::ReadsOfClass::GaveStream(Generation generation, StreamId stream,
                                          const Filter& wanted, Serial last) const {
  return std::any_of(reads.begin(), reads.end(), [&](const Read& read) {
    const Iterator& iterator = read.iterator;
    return iterator.slab.generation == generation && iterator.stream == stream &&
           iterator.seen >= last && read.GaveAll({wanted});
  });
}

bool GivenReads::GaveAll(const ShardView& view, const Slab& slab,
                         const std::vector<Filter>& filters) const {
  const auto found = classes_.find(slab.id().retention_class);
  if (found == classes_.end()) return false;
  const ReadsOfClass& of_class = found->second;
  const Generation generation = slab.id().generation;
  if (generation < of_class.oldest) return of_class.CoverAll(filters);
  const Serial last = LastCommitOf(view, slab);
  for (const Filter& filter : filters) {
    for (const auto& [structure, stream] : slab.Match(filter)) {
      if (!RowFilter::Make(structure, filter).has_value()) continue;
      if (!of_class.GaveStream(generation, stream, filter, last)) return false;
    }
  }
  return true;
}

std::vector<GivenReads::Part> GivenReads::Divide(
    const Slab& slab, const Filter& filter, std::optional<std::vector<StreamId>> streams) const {
  const auto found = classes_.find(slab.id().retention_class);
  if (found == classes_.end()) return {{std::move(streams), {}}};
  const ReadsOfClass& of_class = found->second;
  const Generation generation = slab.id().generation;
  if (generation < of_class.oldest) {
    if (of_class.Covers(filter)) return {};
    Part others{std::move(streams), {}};
    for (const Read& read : of_class.reads) {
      others.masks.push_back({read.filter, {}, kLastSerial});
    }
    return {std::move(others)};
  }
  std::map<StreamId, std::vector<RowMask>> masks;
  for (const Read& read : of_class.reads) {
    if (read.iterator.slab.generation == generation) read.AddMasks(&masks[read.iterator.stream]);
  }
  if (masks.empty()) return {{std::move(streams), {}}};
  if (!streams.has_value()) streams = slab.MatchIds(Filter::Everything());
  std::vector<Part> parts;
  std::vector<StreamId> others;
  for (const StreamId stream : *streams) {
    const auto given = masks.find(stream);
    if (given == masks.end() || given->second.empty()) {
      others.push_back(stream);
    } else {
      parts.push_back({std::vector{stream}, std::move(given->second)});
    }
  }
  if (!others.empty()) parts.push_back({std::move(others), {}});
  return parts;
}

const GivenReads::ReadsOfClass* GivenReads::FindClass(const std::string& filter) const {
  const auto found = std::find_if(classes_.begin(), classes_.end(),
                                  [&](const auto& one) { return one.second.filter == filter; });
  return found == classes_.end() ? nullptr : &found->second;
}

std::uint64_t GivenReads::CountLost(const meta::DropRecord& drop,
                                    const std::vector<Filter>& filters, std::int64_t timestamp_min,
                                    Serial from_serial, bool may_be_many) const {
  const auto count = [&](const meta::DropRecord& of, Serial from) {
    return topicdb::CountLost(of, filters, timestamp_min, from);
  };
  if (may_be_many) return count(drop, from_serial);
  const ReadsOfClass* const of_class = FindClass(drop.retention_class);
  if (of_class == nullptr || drop.generation < of_class->oldest) {
    const bool was_given = of_class != nullptr && of_class->CoverAll(filters);
    // A reader that begins with the oldest message has lost nothing that was gone before.
    return was_given || drop.serial <= began_ ? 0 : count(drop, from_serial);
  }
  std::uint64_t messages = 0;
  for (const meta::DropRecord::Part& part : drop.parts) {
    Serial from = from_serial;
    for (const Read& read : of_class->reads) {
      const bool is_of_part = read.iterator.slab.generation == drop.generation &&
                              read.iterator.structure == part.filter;
      if (is_of_part && read.GaveAll(filters)) from = std::max(from, read.iterator.seen.Next());
    }
    meta::DropRecord one = drop;
    one.parts = {part};
    messages += count(one, from);
  }
  return messages;
}

Status GivenReads::CheckNotLost(const std::vector<meta::DropRecord>& drops,
                                const std::vector<Filter>& filters) const {
  for (std::size_t i = 0; i < drops.size(); ++i) {
    const meta::DropRecord& drop = drops[i];
    // The oldest of so many stands for all before it, too.
    const bool may_be_many = i == 0 && drops.size() >= meta::kDropsMax;
    const ReadsOfClass* const of_class = FindClass(drop.retention_class);
    const bool stands_in = of_class != nullptr && of_class->StandsIn(drop.generation);
    if (!stands_in && !may_be_many) continue;
    const std::uint64_t lost = CountLost(drop, filters, 0, kNoSerial, may_be_many);
    if (lost == 0) continue;
    const SlabId id{shard_, {}, drop.generation};
    return NotFound(DescribeSlab(id, drop.retention_class) +
                    " is gone: it was dropped with up to " + std::to_string(lost) +
                    " messages that the iterators had still to give; a subscription goes on behind "
                    "them, or leave out the iterators of this generation");
  }
  return Status::Ok();
}

Status CheckLogBehind(const ShardView& view, const RetentionRules& rules,
                      const std::vector<LogWant>& wants, Serial from, Serial until,
                      const GivenReads* given) {
  if (given == nullptr || from > given->seen()) {
    return CheckLogFrom(view, rules, wants, from, until);
  }
  std::vector<Filter> filters;
  for (const LogWant& want : wants) filters.push_back(want.filter);
  const auto is_given = [&](const Slab& slab) { return given->GaveAll(view, slab, filters); };
  TOPICDB_RETURN_IF_ERROR(CheckLogFrom(view, rules, wants, from, until, is_given));
  return CheckLogFrom(view, rules, wants, given->seen().Next(), until);
}

Result<GivenByShard> GivenOf(const DatabaseImpl& database, const std::vector<Iterator>& iterators) {
  std::map<std::uint32_t, std::vector<Iterator>> by_shard;
  for (const Iterator& iterator : iterators) {
    TOPICDB_RETURN_IF_ERROR(database.CheckIsHere(iterator.database, "an iterator"));
    by_shard[iterator.slab.shard].push_back(iterator);
  }
  GivenByShard given;
  for (const ShardMoment& moment : database.shards().WholeMoments()) {
    const auto found = by_shard.find(moment.shard->index());
    if (found == by_shard.end()) continue;
    TOPICDB_ASSIGN_OR_RETURN(
        given[found->first],
        GivenReads::Make(moment, *database.environment().rules(), found->second));
    by_shard.erase(found);
  }
  if (by_shard.empty()) return given;
  return NotFound("an iterator is of shard " + std::to_string(by_shard.begin()->first) +
                  ", which is not open here");
}

}  // namespace topicdb
