// Brings a snapshot of another replica here, and puts it in the place of the shard.
#pragma once

#include <functional>
#include <string>

#include "replication/snapshot/snapshot_manifest.h"
#include "topicdb/interrupt.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Asks the replica that has a snapshot for a part of it.
using AskForChunk = std::function<Result<std::string>(const ChunkRequest&)>;

// Fetches the files of a snapshot into `directory`, and fsyncs them. Makes the directory if it is
// not there. Goes on with what an earlier call has left, and removes files that the snapshot does
// not have. Returns kCorruption if a file has another hash, which removes the file; what `ask`
// returns; kStorage; and kInterrupted.
Status FetchSnapshot(const SnapshotManifest& manifest, const std::string& directory,
                     const AskForChunk& ask, const InterruptCheck& interrupted = nullptr);

// Puts what FetchSnapshot has fetched into `directory` in the place of the directory of a shard,
// in one step and durably, and removes what was there. Nobody may have the shard open.
// Both directories must have the same parent. If it fails, may be repeated.
Status InstallSnapshot(const std::string& directory, const std::string& shard_directory);

}  // namespace topicdb::replication
