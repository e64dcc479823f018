#include "base/file/file_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file/file.h"
#include "base/file/files.h"
#include "base/file/system_calls.h"

namespace topicdb {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
// How many bytes HaveSameEnd compares. A table file of RocksDB ends with its properties, among them
// the id of the session that wrote it and its number in that session.
constexpr std::size_t kEndBytes = std::size_t{16} << 10;

}  // namespace

Result<bool> LinkFile(const std::string& from, const std::string& to) {
  if (link(from.c_str(), to.c_str()) == 0) return true;
  if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) return false;
  return ErrnoFault("linking " + from + " to", to, errno);
}

Status CopyFile(const std::string& from, const std::string& to, std::uint64_t bytes,
                const InterruptCheck& interrupted) {
  TOPICDB_ASSIGN_OR_RETURN(const auto source, File::OpenForReading(from));
  TOPICDB_ASSIGN_OR_RETURN(const auto target, File::Create(to));
  std::vector<char> part(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kCopyBytes)));
  for (std::uint64_t offset = 0; offset < bytes;) {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes - offset, part.size()));
    TOPICDB_ASSIGN_OR_RETURN(const std::size_t count, source->ReadAt(offset, part.data(), wanted));
    if (count < wanted) {
      return Corruption(from + " has " + std::to_string(offset + count) +
                        " bytes, it should have " + std::to_string(bytes));
    }
    TOPICDB_RETURN_IF_ERROR(target->WriteAt(offset, {part.data(), count}));
    offset += count;
    if (interrupted && interrupted()) return Interrupted();
  }
  return target->Sync();
}

bool HaveSameEnd(const std::string& a, const std::string& b) {
  const auto first = File::OpenForReading(a);
  const auto second = File::OpenForReading(b);
  if (!first.ok() || !second.ok()) return false;
  const auto bytes = (*first)->Size();
  const auto other_bytes = (*second)->Size();
  if (!bytes.ok() || !other_bytes.ok() || *bytes != *other_bytes) return false;
  const std::uint64_t begin = *bytes - std::min<std::uint64_t>(*bytes, kEndBytes);
  const auto size = static_cast<std::size_t>(*bytes - begin);
  std::vector<char> end(size);
  std::vector<char> other_end(size);
  const auto read = (*first)->ReadAt(begin, end.data(), size);
  const auto other_read = (*second)->ReadAt(begin, other_end.data(), size);
  return read.ok() && other_read.ok() && *read == size && *other_read == size && end == other_end;
}

Status SyncTree(const std::string& path) {
  std::error_code error;
  auto entry = std::filesystem::recursive_directory_iterator(path, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->is_directory(error)) TOPICDB_RETURN_IF_ERROR(SyncDirectory(entry->path()));
  }
  if (error) return ErrnoFault("listing", path, error.value());
  return SyncDirectory(path);
}

Status Exchange(const std::string& a, const std::string& b) {
  const int error = ExchangeNames(a, b);
  if (error == 0) return Status::Ok();
  if (error != EINVAL && error != ENOSYS && error != ENOTSUP) {
    return ErrnoFault("exchanging " + a + " and", b, error);
  }
  const std::string between = a + ".exchanged";
  if (rename(a.c_str(), between.c_str()) != 0) return ErrnoFault("renaming", a, errno);
  if (rename(b.c_str(), a.c_str()) != 0) return ErrnoFault("renaming", b, errno);
  if (rename(between.c_str(), b.c_str()) != 0) return ErrnoFault("renaming", between, errno);
  return Status::Ok();
}

}  // namespace topicdb
