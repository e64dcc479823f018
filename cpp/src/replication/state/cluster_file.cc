#include "replication/state/cluster_file.h"

#include <utility>

#include "base/file/files.h"

namespace topicdb::replication {

namespace {

constexpr std::size_t kFileBytesMax = std::size_t{16} << 20;

}  // namespace

Result<std::optional<ClusterSnapshot>> LoadClusterSnapshot(const std::string& path) {
  if (!Exists(path)) return std::optional<ClusterSnapshot>();
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kFileBytesMax));
  auto snapshot = DecodeClusterSnapshot(bytes);
  TOPICDB_RETURN_IF_ERROR(snapshot.status().WithContext(path));
  return std::optional(std::move(*snapshot));
}

Status StoreClusterSnapshot(const std::string& path, const ClusterSnapshot& snapshot) {
  return WriteFileAtomically(path, Encode(snapshot));
}

}  // namespace topicdb::replication
