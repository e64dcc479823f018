// Remembers what is deleted while slabs are being merged.
#pragma once

#include <optional>
#include <vector>

#include "store/catalog/meta.h"
#include "store/shard/commit/shard_commit.h"

namespace topicdb {

// Gathers the deletes that are committed between the beginning and the end of a merge. The merge
// must carry them out in the slab that it has made. A Shard owns it. Only the holder of the shard's
// commit mutex may call it.
class MergeDeletes {
 public:
  // Begin begins to gather. End stops that, and forgets what was gathered.
  void Begin() { records_.emplace(); }
  void End() { records_.reset(); }
  // Returns whether a merge is under way.
  bool is_on() const { return records_.has_value(); }

  // Add what a commit has deleted, or replaced. They do nothing if no merge is under way.
  void Add(const ShardCommit& commit);
  void Add(const std::vector<meta::DeleteRecord>& replaced);
  // Returns the deletes since Begin. REQUIRES (records): is_on()
  const std::vector<meta::DeleteRecord>& records() const { return *records_; }

 private:
  std::optional<std::vector<meta::DeleteRecord>> records_;
};

}  // namespace topicdb
