// Plans which streams a read visits, and in which order.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "store/view/shard_view.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

class Shard;

// Streams of one slab that are read together; see ReadRequest. Without `streams`, all of the slab.
struct StreamSet {
  std::optional<std::vector<StreamId>> streams;
  Structure structure;
};

// Streams to read, together with the view from which they are read.
struct StreamTarget {
  std::shared_ptr<const ShardView> view;
  std::shared_ptr<Slab> slab;
  StreamSet set;
  std::vector<Filter> filters;      // at least one; a message must match any of them
  Serial serial_max = kLastSerial;  // later commits are not read
  std::vector<RowMask> masks = {};  // hide messages beside those that the view hides
  bool with_values = true;          // ReadRequest::with_values
};

// A shard and the view of it that a read uses. The shard is the first member, so that it outlives
// the view.
struct ShardMoment {
  std::shared_ptr<Shard> shard;
  std::shared_ptr<const ShardView> view;
};

// Returns the streams of a slab that may hold topics that match any of the filters. If the layout
// reads streams one by one, each stream is a set of its own, and the sets are ordered by structure.
// Otherwise all streams are in one set. If `wanted` is given, returns only streams that are in it.
std::vector<StreamSet> SelectStreams(const Slab& slab, const std::vector<Filter>& filters,
                                     const std::optional<std::set<StreamId>>& wanted);

// The numbers of streams from the one after `first` up to `last`.
struct StreamNumbers {
  StreamId first = kNoStream;
  StreamId last{std::numeric_limits<std::uint32_t>::max()};
};
// Adds the streams of a slab that may hold topics of the filter, ordered by structure. Adds only
// streams with these numbers.
void AddStreams(const ShardEnvironment& environment, const Slab& slab, const Filter& filter,
                const StreamNumbers& numbers, std::vector<Stream>* streams);

// Returns the streams that may hold messages in the range that match any of the filters, ordered by
// shard, by when their slabs began, and by structure. So an older generation comes before a newer
// one, even if a topic has changed its class. If `wanted` is given, returns only streams that are
// in it; they must be of the same database.
std::vector<StreamTarget> PlanStreams(const std::vector<ShardMoment>& moments,
                                      const std::vector<Filter>& filters, const TimeRange& range,
                                      const std::optional<std::vector<Stream>>& wanted);

// Returns masks that hide the messages of one slab that these deletes match.
std::vector<RowMask> MasksOf(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab);
// Returns masks that hide the messages of one slab that readers of the view do not see: those that
// deletes match, and those of hidden commits. Without a log, a slab shows hidden commits, too,
// because what their messages have replaced is gone.
std::vector<RowMask> MasksOf(const ShardView& view, const Slab& slab);

// Returns a mask that hides the messages that match the filter, because another read of the same
// call returns them.
RowMask Except(const Filter& filter);
// Returns kInvalidArgument if `serials` has a shard that does not exist. The error names the
// argument with `what`.
Status CheckShards(const char* what, const std::map<std::uint32_t, Serial>& serials,
                   std::uint32_t shards);
// Returns the serial of a shard, or `otherwise` if `serials` has none.
Serial SerialOf(const std::map<std::uint32_t, Serial>& serials, std::uint32_t shard,
                Serial otherwise);

// Returns the position from which a range is read.
Position StartOf(const TimeRange& range);
// Opens a reader of a target from a position on. Its errors name the slab. When it is destroyed, it
// adds its counters to those of the slab.
std::unique_ptr<StreamReader> OpenReader(const StreamTarget& target, const TimeRange& range,
                                         const Position& position,
                                         std::size_t memory_bytes_max = kReadMemoryBytes);

// Returns one request for each filter of a target whose slab has a log (layout/blocks.h).
std::vector<ReadRequest> RequestsFor(const StreamTarget& target, const TimeRange& range);
// Opens a reader of all messages of a target in the range. It returns them in the order in which
// they are stored if the layout has a log, and otherwise in the order of a stream.
std::unique_ptr<StreamReader> OpenUnordered(const StreamTarget& target, const TimeRange& range);

// Opens a reader that looks for the last messages of a target and offers them to `found`.
std::unique_ptr<LastReader> OpenLastReader(const StreamTarget& target, const TimeRange& range,
                                           LastMessages* found);

// Returns a name for errors: "class '#', generation 3 of shard 0".
std::string DescribeSlab(const SlabId& slab, const std::string& retention_class);

}  // namespace topicdb
