// Brings a snapshot of another replica here.
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

}  // namespace topicdb::replication
