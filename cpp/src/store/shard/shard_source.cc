#include "store/shard/shard_source.h"

#include <algorithm>

#include "base/thread/parallel.h"
#include "store/view/shard_environment.h"

namespace topicdb {

Status LocalShards::SetRules(const RetentionRules& rules,
                             const std::vector<std::shared_ptr<Shard>>& shards) {
  TOPICDB_RETURN_IF_ERROR(StoreRetention(environment_->database_path, rules));
  environment_->retention->Set(rules);
  for (const auto& shard : shards) TOPICDB_RETURN_IF_ERROR(shard->Adopt(environment_->rules()));
  return Status::Ok();
}

Status LocalShards::Close(const std::vector<std::shared_ptr<Shard>>& shards) {
  std::vector<Status> closed(shards.size());
  const auto close = [&](std::size_t i) {
    closed[i] = shards[i]->Close();
    return Status::Ok();  // so that all are closed
  };
  if (environment_->read_only) {  // to free what thousands of column families take is work
    RunInParallel(shards.size(), close).IgnoreError();
  } else {  // what is written last has an order that can be told again
    for (std::size_t i = 0; i < shards.size(); ++i) close(i).IgnoreError();
  }
  const auto first =
      std::find_if(closed.begin(), closed.end(), [](const Status& status) { return !status.ok(); });
  return first == closed.end() ? Status::Ok() : *first;
}

}  // namespace topicdb
