// One message by topic and timestamp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "store/shard.h"

namespace topicdb {

// Whether an unfinished delete hides a message of this slab.
bool IsHidden(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab,
              std::string_view topic, std::int64_t timestamp, std::uint64_t serial);

struct PointLookup {
  const std::vector<SlabView>& slabs;
  const std::vector<meta::DeleteRecord>& deletes;
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;  // null: now
  std::uint32_t retention_class;      // of the topic
  std::optional<std::uint32_t> generation;

  // That of the newest generation, if several have it.
  Result<std::optional<StoredMessage>> Find(std::string_view topic, std::int64_t timestamp) const;
};

}  // namespace topicdb
