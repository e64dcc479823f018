// Checks RocksDB's logs before RocksDB reads them.
//
// When the power fails, what was written to a log since its last fsync may be there in part: some
// of its sectors in any order, and more of a newer log than of the one before it. RocksDB accepts
// an incomplete record at the end of a log. It takes anything else for damage, or does not notice
// that commits are missing before others. So CheckLogs cuts that end off. It tells it from damage
// by what a flipped bit cannot cause: a sector of zeros in a record, or a gap in the numbers of
// commits, which are in the link at the end of each commit (commit_link.h).
#pragma once

#include <string>

#include "topicdb/status.h"

namespace topicdb::rocks {

enum class LogUse { kRead, kWrite };

// Checks the current manifest and the write-ahead logs in `directory`. Returns kCorruption, with
// file and byte, if one is damaged. If an unsynced end is not whole, kWrite cuts it off, and kRead
// returns kStorage: whoever opens the shard for writing mends it. Ignores files that vanish
// meanwhile.
Status CheckLogs(const std::string& directory, LogUse use);

}  // namespace topicdb::rocks
