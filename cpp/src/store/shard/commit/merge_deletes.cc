#include "store/shard/commit/merge_deletes.h"

namespace topicdb {

void MergeDeletes::Add(const ShardCommit& commit) {
  if (!is_on() || commit.transaction == nullptr || !commit.written) return;
  for (const KeyRange& keys : commit.transaction->deletes) {
    const Generation generation = commit.transaction->generation.value_or(meta::kEveryGeneration);
    records_->push_back({commit.serial.Previous(), 0, keys, generation});
  }
}

void MergeDeletes::Add(const std::vector<meta::DeleteRecord>& replaced) {
  if (is_on()) records_->insert(records_->end(), replaced.begin(), replaced.end());
}

}  // namespace topicdb
