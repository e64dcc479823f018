// One open file, which is read and written at offsets. Each error names its path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "topicdb/status.h"

namespace topicdb {

// Reads and writes an open file. Its users share it, and the destructor closes the file.
// Thread-safe: each call names its own offset.
class File {
 public:
  // Open a file that exists. Return kNotFound if there is none, and kStorage if it cannot be
  // opened.
  static Result<std::shared_ptr<File>> OpenForReading(const std::string& path);
  static Result<std::shared_ptr<File>> OpenForWriting(const std::string& path);
  // Makes a new file. Returns kStorage if there is one of that name.
  static Result<std::shared_ptr<File>> Create(const std::string& path);
  // Makes a new file, or empties the one of that name.
  static Result<std::shared_ptr<File>> CreateOrEmpty(const std::string& path);
  // Makes a file without a name. It is gone when nobody has it open any more.
  static Result<std::shared_ptr<File>> CreateTemporary(const std::string& directory);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Writes all of `bytes`. After an error, a part of them may have been written.
  Status WriteAt(std::uint64_t offset, std::string_view bytes) const;
  // Reads `size` bytes into `out`, and returns how many it read: fewer only at the end of the file.
  Result<std::size_t> ReadAt(std::uint64_t offset, char* out, std::size_t size) const;
  Result<std::uint64_t> Size() const;
  // Makes the file `size` bytes long: cuts its end off, or adds zeros.
  Status Truncate(std::uint64_t size) const;
  // Reserves space up to `size` without making the file longer. Does nothing if the file system
  // cannot do that. Returns kStorage if there is no space.
  Status Reserve(std::uint64_t size) const;
  // Gives back the space of a range, if the file system can do that. The content there is lost.
  void Discard(std::uint64_t offset, std::uint64_t size) const;
  // Makes the content safe from loss of power (fdatasync). The name is safe after SyncDirectory.
  Status Sync() const;
  // Returns OK if the path of the file leads to it. Otherwise returns the error of
  // KnownFile::CheckInPlace. REQUIRES: the file has a name
  Status CheckInPlace() const;

  const std::string& path() const { return path_; }

 private:
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  static Result<std::shared_ptr<File>> Open(const std::string& path, int flags);

  const int fd_;
  const std::string path_;
};

// Returns the directory for temporary files: $TMPDIR, or /tmp.
std::string TemporaryDirectory();

}  // namespace topicdb
