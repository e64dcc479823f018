// The few operations on files that TopicDB does itself. Each error names the path.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/known_file.h"
#include "topicdb/status.h"

namespace topicdb {

// Returns kStorage with errno's text: "<action> <path>: <text>".
Status ErrnoFault(const std::string& action, const std::string& path, int error_number);

// Returns the whole file. Returns kNotFound if there is none, and kCorruption if it is larger than
// `bytes_max`.
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);
// Writes a temporary file beside `path`, fsyncs it, renames it and fsyncs the directory. After a
// crash there is either the old file or the new one, and it is whole.
Status WriteFileAtomically(const std::string& path, std::string_view content);
// Removes a file and fsyncs its directory. Returns kStorage if there is no such file.
Status RemoveFile(const std::string& path);
// Removes a file, or a directory with everything in it. It is no error if there is none. The caller
// must make the removal durable.
Status RemoveTree(const std::string& path);
// Fsyncs a directory, so that the names in it are safe from loss of power.
Status SyncDirectory(const std::string& path);
// Makes an empty file if there is none.
Status CreateIfMissing(const std::string& path);
// Makes one directory, but not its parents, and fsyncs its parent. It is no error if the directory
// is there already.
Status MakeDirectory(const std::string& path);
// Returns whether there is something of this name. A link counts as what it leads to.
bool Exists(const std::string& path);
bool IsDirectory(const std::string& path);
// Returns `path`, or if it is a symbolic link, that to which the link leads.
std::string FollowLink(const std::string& path);
// Makes `path` a symbolic link to `target` in the same directory, in the place of a link that is
// there, in one step. Fsyncs the directory. Returns kStorage if `path` is a directory or a file.
Status SetLink(const std::string& path, const std::string& target);
// Renames in one step: nobody sees both names or neither. Replaces a file that has the name `to`.
// The caller must make the new name durable.
Status Rename(const std::string& from, const std::string& to);
// Returns the names in a directory, sorted, without "." and "..". Returns kStorage if there is no
// such directory.
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// An exclusive advisory lock on a file. The caller of Acquire owns it, and holds the lock until it
// is destroyed or the process ends. It excludes other processes and other FileLocks of this one. It
// is a POSIX record lock: a forked child does not inherit it, and the kernel knows the pid of its
// holder. Any thread may call Acquire or destroy the lock.
class FileLock {
 public:
  // Makes the file if there is none, and locks it. Returns kLocked, with the holder's pid, if
  // somebody has the lock.
  static Result<std::unique_ptr<FileLock>> Acquire(const std::string& path);
  // Does the same, but waits for at most `patience` until nobody has the lock.
  static Result<std::unique_ptr<FileLock>> AcquireWithin(const std::string& path,
                                                         std::chrono::microseconds patience);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Returns the file that is locked. While the lock lives, KnownFile::CheckInPlace tells whether
  // its directory is still the one in which it was locked.
  const KnownFile& file() const { return file_; }

 private:
  FileLock(int fd, std::string key, KnownFile file)
      : fd_(fd), key_(std::move(key)), file_(std::move(file)) {}
  int fd_;
  std::string key_;  // the file's key in the process's table of held locks
  KnownFile file_;
};

// A shared advisory lock on a file, which says that somebody uses something as long as it lives.
// Any number of processes, and of holders in one process, may have it. A FileLock of the same file
// and the shared ones exclude each other. Otherwise it is like a FileLock: a forked child does not
// inherit it, and the kernel knows the pid of a holder.
class SharedFileLock {
 public:
  // Locks a file that exists. Returns kLocked, with the holder's pid, if somebody has a FileLock of
  // it, and kStorage if there is no such file, or it cannot be read or locked.
  static Result<std::unique_ptr<SharedFileLock>> Acquire(const std::string& path);
  ~SharedFileLock();
  SharedFileLock(const SharedFileLock&) = delete;
  SharedFileLock& operator=(const SharedFileLock&) = delete;

  // Returns the file that is locked, as FileLock::file does.
  const KnownFile& file() const { return file_; }

 private:
  SharedFileLock(std::string key, KnownFile file) : key_(std::move(key)), file_(std::move(file)) {}
  std::string key_;  // the file's key in the process's table of held locks
  KnownFile file_;
};

}  // namespace topicdb
