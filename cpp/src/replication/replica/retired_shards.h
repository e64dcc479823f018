// The shards of a replica that snapshots have replaced.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file/files.h"
#include "replication/replicated_shard.h"
#include "replication/snapshot/damage_note.h"
#include "store/shard/shard.h"

namespace topicdb::replication {

// Keeps shards whose place a snapshot has taken, until nobody has them any more. Then it closes
// them, and removes their directories; one that is noted as damaged is moved to the quarantine. The
// Replica owns it, and destroys it before the environment of the shards. Not thread-safe.
class RetiredShards {
 public:
  // `shard_directory` is that of the shard, beside which the directories of the copies are.
  explicit RetiredShards(std::string shard_directory)
      : shard_directory_(std::move(shard_directory)) {}

  // Takes a shard, which is in `directory`. `given` is the shard as the replica has given it out.
  void Add(std::unique_ptr<ReplicatedShard> replicated, std::string directory,
           const std::shared_ptr<Shard>& given) {
    retired_.push_back({std::move(replicated), std::move(directory), given});
  }
  bool empty() const { return retired_.empty(); }
  // Returns whether there is one that nobody has any more.
  bool MayRemove() const {
    return std::any_of(retired_.begin(), retired_.end(),
                       [](const Retired& retired) { return retired.given.expired(); });
  }
  // Removes those that nobody has any more, or all of them. REQUIRES (Remove): with `all`, nobody
  // uses them
  void Remove(bool all) {
    for (Retired& retired : retired_) {
      if (!all && !retired.given.expired()) continue;
      retired.replicated->Close().IgnoreError();  // it is of no use any more
      retired.replicated.reset();
      // What fails is done when the replica is opened the next time.
      const std::string name = retired.directory.substr(retired.directory.rfind('/') + 1);
      if (FinishDamage(shard_directory_, name).ok()) RemoveTree(retired.directory).IgnoreError();
    }
    std::erase_if(retired_, [](const Retired& retired) { return retired.replicated == nullptr; });
  }

 private:
  struct Retired {
    std::unique_ptr<ReplicatedShard> replicated;
    std::string directory;
    std::weak_ptr<Shard> given;  // expires when nobody has the shard any more
  };

  const std::string shard_directory_;
  std::vector<Retired> retired_;  // the oldest first
};

}  // namespace topicdb::replication
