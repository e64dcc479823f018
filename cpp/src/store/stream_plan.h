// Which streams a read visits, in which order.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/shard.h"
#include "topicdb/database.h"

namespace topicdb {

// A stream to read, held together with the moment at which it is read.
struct StreamTarget {
  std::shared_ptr<const ShardView> view;
  std::shared_ptr<Slab> slab;
  std::uint32_t stream = 0;
  Structure structure;
  RowFilter filter;
};

// What one shard contributes to a read. The shard is first, so that it outlives the view.
struct ShardMoment {
  std::shared_ptr<Shard> shard;
  std::shared_ptr<const ShardView> view;
};

// Streams that may hold messages, ordered by slab and structure; within one class an older
// generation thus comes before a newer one. `wanted`: only these (of the same database); absent:
// all.
std::vector<StreamTarget> PlanStreams(const std::vector<ShardMoment>& moments, const Filter& filter,
                                      const TimeRange& range,
                                      const std::optional<std::vector<Stream>>& wanted);

// The deletes that concern messages of one structure in one slab.
std::vector<RowMask> MasksOf(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab,
                             const Structure& structure);

// A reader of a target from a position on.
std::unique_ptr<StreamReader> OpenReader(const StreamTarget& target, const TimeRange& range,
                                         const Position& position);

// "class '#', generation 3 of shard 0", for messages.
std::string DescribeSlab(const SlabId& slab, const std::string& retention_class);

}  // namespace topicdb
