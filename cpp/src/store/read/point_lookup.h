// Finds one message by topic and timestamp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "store/view/shard_view.h"

namespace topicdb {

// Looks up messages in one shard. It refers to the lists that it was made with, which must outlive
// it. Any thread may call it, but without a snapshot only the holder of the shard's commit mutex.
struct PointLookup {
  const std::vector<SlabView>& slabs;
  const std::vector<meta::DeleteRecord>& deletes;
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;      // null: reads what is committed now
  std::vector<RetentionClassId> classes;  // of the topic, now and before
  std::optional<Generation> generation;

  // Returns the message, or nothing if there is none. If several generations of a class have one,
  // takes that of the newest generation, and there the newest message. If several classes have one,
  // takes the one that was committed last.
  Result<std::optional<StoredMessage>> Find(std::string_view topic, std::int64_t timestamp) const;

 private:
  // Does the work of Find for one class.
  Result<std::optional<StoredMessage>> FindIn(RetentionClassId retention_class,
                                              std::string_view topic, std::int64_t timestamp) const;
};

}  // namespace topicdb
