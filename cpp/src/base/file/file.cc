#include "base/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/file/files.h"
#include "base/file/known_file.h"
#include "base/file/system_calls.h"

namespace topicdb {

Result<std::shared_ptr<File>> File::Open(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd >= 0) return std::shared_ptr<File>(new File(fd, path));
  if (errno == ENOENT && (flags & O_CREAT) == 0) return NotFound(path + " does not exist");
  return ErrnoFault((flags & O_CREAT) != 0 ? "creating" : "opening", path, errno);
}

Result<std::shared_ptr<File>> File::OpenForReading(const std::string& path) {
  return Open(path, O_RDONLY);
}

Result<std::shared_ptr<File>> File::OpenForWriting(const std::string& path) {
  return Open(path, O_RDWR);
}

Result<std::shared_ptr<File>> File::Create(const std::string& path) {
  return Open(path, O_RDWR | O_CREAT | O_EXCL);
}

Result<std::shared_ptr<File>> File::CreateOrEmpty(const std::string& path) {
  return Open(path, O_RDWR | O_CREAT | O_TRUNC);
}

Result<std::shared_ptr<File>> File::CreateTemporary(const std::string& directory) {
#ifdef O_TMPFILE
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return std::shared_ptr<File>(new File(fd, directory + "/(temporary file)"));
#endif
  // The system or the file system makes no files without a name, so this makes a file with a name
  // and removes the name.
  std::string path = directory + "/topicdb-XXXXXX.tmp";
  const int named = mkostemps(path.data(), /*suffixlen=*/4, O_CLOEXEC);
  if (named < 0) return ErrnoFault("creating a temporary file in", directory, errno);
  unlink(path.c_str());
  return std::shared_ptr<File>(new File(named, std::move(path)));
}

File::~File() { close(fd_); }

Status File::WriteAt(std::uint64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoFault("writing", path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return Status::Ok();
}

Result<std::size_t> File::ReadAt(std::uint64_t offset, char* out, std::size_t size) const {
  std::size_t total = 0;
  while (total < size) {
    const ssize_t count = pread(fd_, out + total, size - total, static_cast<off_t>(offset + total));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoFault("reading", path_, errno);
    if (count == 0) break;
    total += static_cast<std::size_t>(count);
  }
  return total;
}

Result<std::uint64_t> File::Size() const {
  struct stat info{};
  if (fstat(fd_, &info) != 0) return ErrnoFault("looking at", path_, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

Status File::Truncate(std::uint64_t size) const {
  if (ftruncate(fd_, static_cast<off_t>(size)) == 0) return Status::Ok();
  return ErrnoFault("truncating", path_, errno);
}

void File::Discard(std::uint64_t offset, std::uint64_t size) const {
  ReleaseSpace(fd_, offset, size);
}

Status File::Reserve(std::uint64_t size) const {
  const int error = size == 0 ? 0 : ReserveSpace(fd_, size);
  return error == 0 ? Status::Ok() : ErrnoFault("reserving space for", path_, error);
}

Status File::Sync() const {
  const int error = SyncToDevice(fd_);
  return error == 0 ? Status::Ok() : ErrnoFault("syncing", path_, error);
}

Status File::CheckInPlace() const {
  struct stat own{};
  if (fstat(fd_, &own) != 0) return ErrnoFault("looking at", path_, errno);
  return KnownFile(path_, own.st_dev, own.st_ino).CheckInPlace();
}

std::string TemporaryDirectory() {
  const char* directory = std::getenv("TMPDIR");
  return directory == nullptr || *directory == '\0' ? "/tmp" : directory;
}

}  // namespace topicdb
