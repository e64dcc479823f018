// Copies of files and of directories, by hard links where that can be.
#pragma once

#include <cstdint>
#include <string>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"

namespace topicdb {

// A second name for a file. False if the file systems are two, or this one has no links.
Result<bool> LinkFile(const std::string& from, const std::string& to);
// The first `bytes` of a file in a new one, fsynced. kCorruption if it is shorter, kInterrupted.
Status CopyFile(const std::string& from, const std::string& to, std::uint64_t bytes,
                const InterruptCheck& interrupted);
// Whether both are there, as long as each other, and end alike. Enough for files that say at their
// end which file they are.
bool HaveSameEnd(const std::string& a, const std::string& b);
// Fsyncs a directory and those in it.
Status SyncTree(const std::string& path);
// The two names change places; at once where the file system can do that.
Status Exchange(const std::string& a, const std::string& b);

}  // namespace topicdb
