#include "store/shard/commit/merge_deletes.h"

namespace topicdb {

void MergeDeletes::Add(const ShardCommit& commit) {
  if (!is_on() || commit.transaction == nullptr || !commit.written) return;
  for (const KeyRange& keys : commit.transaction->deletes) {
    records_->push_back({commit.serial - 1, 0, keys, commit.transaction->generation.value_or(0)});
  }
}

void MergeDeletes::Add(const std::vector<meta::DeleteRecord>& replaced) {
  if (is_on()) records_->insert(records_->end(), replaced.begin(), replaced.end());
}

}  // namespace topicdb
