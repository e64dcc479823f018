// One message by topic and timestamp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "store/view/shard_view.h"

namespace topicdb {

struct PointLookup {
  const std::vector<SlabView>& slabs;
  const std::vector<meta::DeleteRecord>& deletes;
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;   // null: now
  std::vector<std::uint32_t> classes;  // of the topic, and those that it had before
  std::optional<std::uint32_t> generation;

  // That of the newest generation, if several have it, and there the newest.
  Result<std::optional<StoredMessage>> Find(std::string_view topic, std::int64_t timestamp) const;

 private:
  Result<std::optional<StoredMessage>> FindIn(std::uint32_t retention_class, std::string_view topic,
                                              std::int64_t timestamp) const;
};

}  // namespace topicdb
