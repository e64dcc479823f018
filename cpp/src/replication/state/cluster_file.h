// The file with the state of a cluster, in the directory of a site.
#pragma once

#include <optional>
#include <string>

#include "replication/state/cluster_state.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Returns what the file says, or nothing if there is none. Returns kCorruption, kSchema and
// kStorage.
Result<std::optional<ClusterSnapshot>> LoadClusterSnapshot(const std::string& path);

// Writes the file, durably, in the place of one that is there.
Status StoreClusterSnapshot(const std::string& path, const ClusterSnapshot& snapshot);

}  // namespace topicdb::replication
