// The shards of a replica that snapshots have replaced.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "replication/replicated_shard.h"
#include "store/shard/shard.h"

namespace topicdb::replication {

// Keeps shards whose place a snapshot has taken, until nobody has them any more. Then it closes
// them, and removes their directories. The Replica owns it, and destroys it before the environment
// of the shards. Not thread-safe.
class RetiredShards {
 public:
  // Takes a shard, which is in `directory`. `given` is the shard as the replica has given it out.
  void Add(std::unique_ptr<ReplicatedShard> replicated, std::string directory,
           const std::shared_ptr<Shard>& given) {
    retired_.push_back({std::move(replicated), std::move(directory), given});
  }
  bool empty() const { return retired_.empty(); }
  // Returns whether there is one that nobody has any more.
  bool MayRemove() const;
  // Removes those that nobody has any more, or all of them. REQUIRES (Remove): with `all`, nobody
  // uses them
  void Remove(bool all);

 private:
  struct Retired {
    std::unique_ptr<ReplicatedShard> replicated;
    std::string directory;
    std::weak_ptr<Shard> given;  // expires when nobody has the shard any more
  };

  std::vector<Retired> retired_;  // the oldest first
};

}  // namespace topicdb::replication
