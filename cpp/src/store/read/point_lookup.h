// Finds one message by topic and timestamp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "store/view/shard_view.h"

namespace topicdb {

// A lookup in one shard. It refers to the lists that it was made with, which must outlive it.
struct PointLookup {
  const std::vector<SlabView>& slabs;
  const std::vector<meta::DeleteRecord>& deletes;
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;      // null: now
  std::vector<RetentionClassId> classes;  // of the topic, now and before
  std::optional<Generation> generation;

  // Returns the message, or nothing if there is none. If several generations have it, returns that
  // of the newest generation, and there the newest message.
  Result<std::optional<StoredMessage>> Find(std::string_view topic, std::int64_t timestamp) const;

 private:
  Result<std::optional<StoredMessage>> FindIn(RetentionClassId retention_class,
                                              std::string_view topic, std::int64_t timestamp) const;
};

}  // namespace topicdb
