// The files of a snapshot, at the replica that has made it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <rocksdb/db.h>

#include "replication/snapshot/snapshot_manifest.h"
#include "store/view/shard_environment.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// A copy of the RocksDB of a shard, whose files other replicas fetch. RocksDB makes the copy by
// hard links, so it takes little time and hardly any space, and outlives the RocksDB. The replica
// owns it until nobody fetches any more. Thread-safe once it is made.
class SnapshotSource {
 public:
  // Moves what `db` has in memory to files, and links all files into `directory`, which must not be
  // there. Others may write meanwhile. Reads all files once, for their hashes. Returns kStorage or
  // kCorruption, and leaves no directory then.
  static Result<std::unique_ptr<SnapshotSource>> Make(rocksdb::DB* db,
                                                      const rocks::SharedResources& resources,
                                                      std::uint64_t replica,
                                                      const std::string& directory);
  // Removes the files.
  ~SnapshotSource();
  SnapshotSource(const SnapshotSource&) = delete;
  SnapshotSource& operator=(const SnapshotSource&) = delete;

  const SnapshotManifest& manifest() const { return manifest_; }
  // Returns a part of a file. It is shorter than asked for only at the end of the file. Returns
  // kNotFound for a request for another snapshot or file.
  Result<std::string> Read(const ChunkRequest& request) const;

 private:
  explicit SnapshotSource(std::string directory) : directory_(std::move(directory)) {}

  // Reads the notes of the copy, and the hashes of its files.
  Status Describe(const rocks::SharedResources& resources, std::uint64_t replica);

  const std::string directory_;
  SnapshotManifest manifest_;
};

}  // namespace topicdb::replication
