// Where a replica keeps its shard.
//
// The directory of the shard is a symbolic link to a copy beside it: `0002` leads to
// `0002.copy-1234`, which began as the snapshot of entry 1234. So a snapshot takes the place of the
// shard in one step, while the shard is still being read in the older copy.
#pragma once

#include <cstdint>
#include <string>

#include "topicdb/status.h"

namespace topicdb::replication {

// Makes the link and an empty copy if there is none. If the shard is in its directory itself, as in
// a local database, makes a copy of that by renaming. Removes copies to which the link does not
// lead. Returns kCorruption if there are copies and no link, and kStorage. REQUIRES: the caller has
// the lock of the shard, and nobody has it open
Status PrepareCopies(const std::string& shard_directory);

// Puts what FetchSnapshot has fetched into `directory`, the snapshot of this entry, in the place of
// the shard. It is durable when this returns. The older copy stays: whoever has it open may go on,
// and must remove it.
Status InstallSnapshot(const std::string& directory, const std::string& shard_directory,
                       std::uint64_t index);

// Returns the directory into which the data is fetched that takes the place of a damaged copy.
std::string RefillDirectory(const std::string& shard_directory);

// As InstallSnapshot, for a copy that takes the place of a damaged one, which may have begun with
// the same entry.
Status InstallRefill(const std::string& directory, const std::string& shard_directory,
                     std::uint64_t index);

// Returns kCorruption if the copy at `path` has lost what says which tables it has: RocksDB would
// take it for a new one.
Status CheckCopy(const std::string& path);

}  // namespace topicdb::replication
