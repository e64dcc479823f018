#include "store/read/stream_plan.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "layout/blocks.h"

namespace topicdb {

namespace {

// Reads with another reader. Names the slab in errors, and adds the counters to those of the slab.
class SlabReader : public StreamReader {
 public:
  SlabReader(const StreamTarget& target, std::unique_ptr<StreamReader> reader)
      : slab_(target.slab),
        name_(target.view->Describe(target.slab->id())),
        reader_(std::move(reader)) {}
  ~SlabReader() override { slab_->AddReads(reader_->counters()); }

  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override {
    auto outcome = reader_->Read(limits, out);
    if (outcome.ok()) return outcome;
    return outcome.status().WithContext(name_);
  }
  const Position& position() const override { return reader_->position(); }
  ReadCounters counters() const override { return reader_->counters(); }

 private:
  const std::shared_ptr<Slab> slab_;
  const std::string name_;
  const std::unique_ptr<StreamReader> reader_;
};

// Returns a set of its own for each stream that may hold topics of the filters, ordered by
// structure.
std::vector<StreamSet> SelectOneByOne(const Slab& slab, const std::vector<Filter>& filters,
                                      const std::optional<std::set<StreamId>>& wanted) {
  std::map<std::pair<std::string, StreamId>, StreamSet> sets;
  for (const Filter& filter : filters) {
    for (auto& [structure, stream] : slab.Match(filter)) {
      if (wanted.has_value() && !wanted->contains(stream)) continue;
      if (!RowFilter::Make(structure, filter).has_value()) continue;
      std::string text = structure.Text();
      StreamSet set{std::vector<StreamId>{stream}, std::move(structure)};
      sets.emplace(std::pair(std::move(text), stream), std::move(set));
    }
  }
  std::vector<StreamSet> in_order;
  for (auto& [place, set] : sets) in_order.push_back(std::move(set));
  return in_order;
}

ReadRequest RequestOf(const StreamTarget& target, const TimeRange& range,
                      const Position& position) {
  ReadRequest request{
      target.set.streams, target.set.structure, target.filters.front(), range, position, {}};
  request.or_filters.assign(target.filters.begin() + 1, target.filters.end());
  request.masks = MasksOf(*target.view, *target.slab);
  request.masks.insert(request.masks.end(), target.masks.begin(), target.masks.end());
  request.serial_max = target.serial_max;
  request.with_values = target.with_values;
  return request;
}

}  // namespace

std::vector<StreamSet> SelectStreams(const Slab& slab, const std::vector<Filter>& filters,
                                     const std::optional<std::set<StreamId>>& wanted) {
  if (slab.layout().reads_one_stream()) return SelectOneByOne(slab, filters, wanted);
  std::vector<StreamSet> sets;
  const bool is_all = std::any_of(filters.begin(), filters.end(), [](const Filter& filter) {
    return filter.text() == "#" || filter.is_everything();
  });
  if (!wanted.has_value() && is_all) return {StreamSet{}};
  std::vector<StreamId> streams;
  for (const Filter& filter : filters) {
    const std::vector<StreamId> more = slab.MatchIds(filter);
    streams.insert(streams.end(), more.begin(), more.end());
  }
  if (filters.size() > 1) {
    std::sort(streams.begin(), streams.end());
    streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  }
  if (wanted.has_value()) {
    std::erase_if(streams, [&](StreamId stream) { return !wanted->contains(stream); });
  }
  if (!streams.empty()) sets.push_back({std::move(streams), {}});
  return sets;
}

void AddStreams(const ShardEnvironment& environment, const Slab& slab, const Filter& filter,
                const StreamNumbers& numbers, std::vector<Stream>* streams) {
  const SlabId& id = slab.id();
  for (const auto& [structure, stream] : slab.Match(filter)) {
    if (stream <= numbers.first || stream > numbers.last) continue;
    if (!RowFilter::Make(structure, filter).has_value()) continue;
    streams->push_back({environment.database, id, stream,
                        environment.rules()->FilterOf(id.retention_class), structure.Text()});
  }
}

std::vector<StreamTarget> PlanStreams(const std::vector<ShardMoment>& moments,
                                      const std::vector<Filter>& filters, const TimeRange& range,
                                      const std::optional<std::vector<Stream>>& wanted) {
  std::map<SlabId, std::set<StreamId>> chosen;
  if (wanted.has_value()) {
    for (const Stream& stream : *wanted) chosen[stream.slab].insert(stream.id);
  }
  std::vector<StreamTarget> targets;
  for (const ShardMoment& moment : moments) {
    for (const SlabView& slab_view : moment.view->in_reading_order()) {
      const std::shared_ptr<Slab>& slab = slab_view.slab;
      if (!slab->MayHold(range)) continue;
      std::optional<std::set<StreamId>> streams;
      if (wanted.has_value()) streams = chosen[slab->id()];
      for (StreamSet& set : SelectStreams(*slab, filters, streams)) {
        targets.push_back({moment.view, slab, std::move(set), filters});
      }
    }
  }
  return targets;
}

std::vector<RowMask> MasksOf(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab) {
  std::vector<RowMask> masks;
  for (const meta::DeleteRecord& record : deletes) {
    if (!record.Covers(slab)) continue;
    masks.push_back({record.keys.filter, record.keys.range, record.serial});
  }
  return masks;
}

std::vector<RowMask> MasksOf(const ShardView& view, const Slab& slab) {
  std::vector<RowMask> masks = MasksOf(view.deletes(), slab.id());
  if (slab.log() == nullptr) return masks;
  for (const SerialRange& serials : view.hidden()) {
    masks.push_back({Filter::Everything(), {}, serials.last, serials.first});
  }
  return masks;
}

RowMask Except(const Filter& filter) { return {filter, {}, kLastSerial}; }

Status CheckShards(const char* what, const std::map<std::uint32_t, Serial>& serials,
                   std::uint32_t shards) {
  for (const auto& [shard, serial] : serials) {
    if (shard < shards) continue;
    return InvalidArgument(std::string(what) + ": there is no shard " + std::to_string(shard) +
                           ", the database has " + std::to_string(shards));
  }
  return Status::Ok();
}

Serial SerialOf(const std::map<std::uint32_t, Serial>& serials, std::uint32_t shard,
                Serial otherwise) {
  const auto found = serials.find(shard);
  return found == serials.end() ? otherwise : found->second;
}

Position StartOf(const TimeRange& range) {
  return {Position::Kind::kAtTime, range.start.value_or(0), kNoSerial, 0, {}};
}

std::unique_ptr<StreamReader> OpenReader(const StreamTarget& target, const TimeRange& range,
                                         const Position& position, std::size_t memory_bytes_max) {
  const Slab& slab = *target.slab;
  ReadRequest request = RequestOf(target, range, position);
  request.memory_bytes_max = memory_bytes_max;
  return std::make_unique<SlabReader>(
      target, slab.layout().NewReader(target.view->Source(slab), std::move(request)));
}

std::vector<ReadRequest> RequestsFor(const StreamTarget& target, const TimeRange& range) {
  std::vector<ReadRequest> any_of;
  for (const Filter& filter : target.filters) {
    ReadRequest request = RequestOf(target, range, StartOf(range));
    request.filter = filter;
    request.or_filters.clear();
    any_of.push_back(std::move(request));
  }
  return any_of;
}

std::unique_ptr<StreamReader> OpenUnordered(const StreamTarget& target, const TimeRange& range) {
  const Slab& slab = *target.slab;
  if (slab.log() == nullptr) return OpenReader(target, range, StartOf(range));
  return std::make_unique<SlabReader>(
      target, NewUnorderedReader(target.view->Source(slab), RequestsFor(target, range)));
}

std::unique_ptr<LastReader> OpenLastReader(const StreamTarget& target, const TimeRange& range,
                                           LastMessages* found) {
  const Slab& slab = *target.slab;
  ReadRequest request = RequestOf(target, range, StartOf(range));
  return slab.layout().NewLastReader(target.view->Source(slab), std::move(request), found);
}

std::string DescribeSlab(const SlabId& slab, const std::string& retention_class) {
  return "class '" + retention_class + "', generation " + std::to_string(slab.generation.value()) +
         " of shard " + std::to_string(slab.shard);
}

}  // namespace topicdb
