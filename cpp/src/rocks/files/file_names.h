// Knows the names of a RocksDB's files.
#pragma once

#include <string_view>

namespace topicdb::rocks {

// Returns whether a file with this name may be one of a shard's: RocksDB's own, what TopicDB writes
// of them anew, and what a crash leaves of a temporary one.
bool IsFileName(std::string_view name);
// Returns whether a directory with this name may be one that RocksDB makes beside its files.
bool IsDirectoryName(std::string_view name);

}  // namespace topicdb::rocks
