// The few operations on files that TopicDB does itself. Each error names the path.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb {

// kStorage with errno's text: "<action> <path>: <text>".
Status ErrnoFault(const std::string& action, const std::string& path, int error_number);

// The whole file. kNotFound if there is none, kCorruption if it is larger than `bytes_max`.
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);
// Writes a temporary file beside `path`, fsyncs it, renames it and fsyncs the directory: after a
// crash there is the old file or the new one, whole.
Status WriteFileAtomically(const std::string& path, std::string_view content);
Status RemoveFile(const std::string& path);
// Removes a file, or a directory with all that is in it; fine if there is none. Not made durable.
Status RemoveTree(const std::string& path);
Status SyncDirectory(const std::string& path);
// Makes one directory (not its parents); one that is there is fine.
Status MakeDirectory(const std::string& path);
// Whether there is something of this name; a link counts as what it leads to.
bool Exists(const std::string& path);
bool IsDirectory(const std::string& path);
// At once; nobody sees neither or both. Not made durable.
Status Rename(const std::string& from, const std::string& to);
// Names in a directory without "." and "..", sorted.
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// An exclusive advisory lock on a file, held until destruction or the process's end. Excludes other
// processes and other FileLocks of this one. A POSIX record lock: a forked child does not inherit
// it, and the kernel knows the holder's pid.
class FileLock {
 public:
  // Creates the file if need be. kLocked, with the holder's pid, if somebody has it.
  static Result<std::unique_ptr<FileLock>> Acquire(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  FileLock(int fd, std::string key) : fd_(fd), key_(std::move(key)) {}
  int fd_;
  std::string key_;  // in the process's table of held locks
};

}  // namespace topicdb
