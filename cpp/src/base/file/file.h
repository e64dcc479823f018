// One open file, read and written at offsets. Each error names its path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "topicdb/status.h"

namespace topicdb {

// Thread-safe: the calls share no offset. Closed by the destructor.
class File {
 public:
  static Result<std::shared_ptr<File>> OpenForReading(const std::string& path);
  static Result<std::shared_ptr<File>> OpenForWriting(const std::string& path);
  // kStorage if there is one of that name.
  static Result<std::shared_ptr<File>> Create(const std::string& path);
  // There is an empty one of that name afterwards.
  static Result<std::shared_ptr<File>> CreateOrEmpty(const std::string& path);
  // One without a name, which goes with the last that has it open.
  static Result<std::shared_ptr<File>> CreateTemporary(const std::string& directory);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // All of `bytes`, or an error; after one, a part may have been written.
  Status WriteAt(std::uint64_t offset, std::string_view bytes) const;
  // Up to `size` bytes into `out`; fewer only at the end of the file.
  Result<std::size_t> ReadAt(std::uint64_t offset, char* out, std::size_t size) const;
  Result<std::uint64_t> Size() const;
  Status Truncate(std::uint64_t size) const;
  // Has the file system set space aside up to `size`, without making the file longer; where it
  // cannot do that, does nothing. kStorage if there is no space.
  Status Reserve(std::uint64_t size) const;
  // Gives the space of a range back, where the file system can do that: what is there is lost.
  void Discard(std::uint64_t offset, std::uint64_t size) const;
  // fdatasync: the content is safe from loss of power. The name is so after SyncDirectory.
  Status Sync() const;

  const std::string& path() const { return path_; }

 private:
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  static Result<std::shared_ptr<File>> Open(const std::string& path, int flags);

  const int fd_;
  const std::string path_;
};

// Where the system has temporary files: $TMPDIR, or /tmp.
std::string TemporaryDirectory();

}  // namespace topicdb
