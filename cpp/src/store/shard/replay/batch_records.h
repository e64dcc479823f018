// What a batch that another process has made changes in a shard.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/catalog/meta.h"
#include "store/catalog/retention_class.h"
#include "structure/structure_trie.h"
#include "topicdb/status.h"

namespace topicdb {

// The records in a batch that readers of the shard need, and the families of slabs that it removes
// something from. ShardReplay makes one for each batch.
struct BatchRecords {
  using DeleteName = std::pair<Serial, std::uint32_t>;  // the serial and the index of a record

  std::optional<meta::CommitState> commit;
  std::shared_ptr<const RetentionRules> rules;  // null: the shard follows the same as before
  std::map<SlabId, std::optional<meta::SlabRecord>> slabs;  // absent: the record is removed
  std::map<SlabId, meta::SlabCounters> counters;
  std::map<SlabId, std::vector<NodeRecord>> nodes;  // in the order of their ids
  std::vector<meta::DeleteRecord> deletes;
  std::set<DeleteName> finished_deletes;
  std::map<std::string, std::optional<meta::JobRecord>> jobs;  // absent: the record is removed
  // The families in which keys are deleted, by their number. True: messages of users are removed.
  std::map<std::uint32_t, bool> families;
};

// Returns whether a put or a delete in a family removes messages of users that readers have seen.
using RemovesMessages =
    std::function<bool(std::uint32_t family, std::string_view key, bool deletes)>;

// Returns the records in a batch of the shard with this index. Returns kCorruption if one of them
// is malformed.
Result<BatchRecords> ReadBatch(const rocksdb::WriteBatch& batch, std::uint32_t shard,
                               const RemovesMessages& removes);

}  // namespace topicdb
