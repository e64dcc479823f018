#include "replication/site/retired_shards.h"

#include <algorithm>

#include "base/file/files.h"

namespace topicdb::replication {

bool RetiredShards::MayRemove() const {
  return std::any_of(retired_.begin(), retired_.end(),
                     [](const Retired& retired) { return retired.given.expired(); });
}

void RetiredShards::Remove(bool all) {
  for (Retired& retired : retired_) {
    if (!all && !retired.given.expired()) continue;
    retired.replicated->Close().IgnoreError();  // it is of no use any more
    retired.replicated.reset();
    RemoveTree(retired.directory).IgnoreError();  // the next opening does
  }
  std::erase_if(retired_, [](const Retired& retired) { return retired.replicated == nullptr; });
}

}  // namespace topicdb::replication
