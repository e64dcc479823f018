// Copies files and directories, by hard links where possible.
#pragma once

#include <cstdint>
#include <string>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"

namespace topicdb {

// Gives a file a second name. Returns false if that is not possible: the names are in two file
// systems, the file system has no links, or the file has as many names as it may.
Result<bool> LinkFile(const std::string& from, const std::string& to);
// Copies the first `bytes` of a file to a new one, and fsyncs it. Returns kCorruption if the file
// is shorter, or kInterrupted.
Status CopyFile(const std::string& from, const std::string& to, std::uint64_t bytes,
                const InterruptCheck& interrupted);
// Returns whether both files exist, have the same length, and end alike. That is enough for files
// whose end says which file they are.
bool HaveSameEnd(const std::string& a, const std::string& b);
// Fsyncs a directory and all directories in it.
Status SyncTree(const std::string& path);
// Exchanges two names, in one step where the file system can do that. Elsewhere it renames three
// times, and a crash in between leaves a file or directory with the name "<a>.exchanged".
Status Exchange(const std::string& a, const std::string& b);

}  // namespace topicdb
