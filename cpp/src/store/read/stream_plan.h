// Which streams a read visits, in which order.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "store/view/shard_view.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

class Shard;

// Streams of one slab that are read together; see ReadRequest.
struct StreamSet {
  std::optional<std::vector<std::uint32_t>> streams;
  Structure structure;
};

// Streams to read, held together with the moment at which they are read.
struct StreamTarget {
  std::shared_ptr<const ShardView> view;
  std::shared_ptr<Slab> slab;
  StreamSet set;
  std::vector<Filter> filters;  // at least one; messages match any of them
};

// What one shard contributes to a read. The shard is first, so that it outlives the view.
struct ShardMoment {
  std::shared_ptr<Shard> shard;
  std::shared_ptr<const ShardView> view;
};

// The streams of a slab that may hold topics that match any of the filters: one a set, by
// structure, or all in one, as its layout reads them. `wanted`: only these.
std::vector<StreamSet> SelectStreams(const Slab& slab, const std::vector<Filter>& filters,
                                     const std::optional<std::set<std::uint32_t>>& wanted);

// Streams of a slab that may hold topics of the filter, by structure: of those with numbers above
// `first` and up to `last`.
struct StreamNumbers {
  std::uint32_t first = 0;
  std::uint32_t last = std::numeric_limits<std::uint32_t>::max();
};
void AddStreams(const ShardEnvironment& environment, const Slab& slab, const Filter& filter,
                const StreamNumbers& numbers, std::vector<Stream>* streams);

// Streams that may hold messages, by shard, then by when their slabs began, then by structure: an
// older generation thus comes before a newer one, also where a topic has changed its class.
// `wanted`: only these (of the same database); absent: all.
std::vector<StreamTarget> PlanStreams(const std::vector<ShardMoment>& moments,
                                      const std::vector<Filter>& filters, const TimeRange& range,
                                      const std::optional<std::vector<Stream>>& wanted);

// The deletes that concern messages of one slab.
std::vector<RowMask> MasksOf(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab);
// What of one slab readers of the view do not see.
std::vector<RowMask> MasksOf(const ShardView& view, const SlabId& slab);

// Hides what another read of the same call gives.
RowMask Except(const Filter& filter);
// kInvalidArgument for serials of a shard that is not there; `what` names the argument.
Status CheckShards(const char* what, const std::map<std::uint32_t, std::uint64_t>& serials,
                   std::uint32_t shards);

// The position from which a range is read.
Position StartOf(const TimeRange& range);
// A reader of a target from a position on. Its errors name the slab.
std::unique_ptr<StreamReader> OpenReader(const StreamTarget& target, const TimeRange& range,
                                         const Position& position,
                                         std::size_t memory_bytes_max = kReadMemoryBytes);

// A reader of a whole target that gives messages as they are stored, if its layout can.
std::unique_ptr<StreamReader> OpenUnordered(const StreamTarget& target, const TimeRange& range);

// Looks for the last messages of a target.
std::unique_ptr<LastReader> OpenLastReader(const StreamTarget& target, const TimeRange& range,
                                           LastMessages* found);

// "class '#', generation 3 of shard 0", for messages.
std::string DescribeSlab(const SlabId& slab, const std::string& retention_class);

}  // namespace topicdb
