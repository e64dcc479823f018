#include "base/file/known_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/file/files.h"

namespace topicdb {

Result<KnownFile> KnownFile::At(std::string path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return ErrnoFault("looking at", path, errno);
  return KnownFile(std::move(path), info.st_dev, info.st_ino);
}

Status KnownFile::CheckInPlace() const {
  struct stat info{};
  if (stat(path_.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return StorageFault(path_ + " is gone: it was removed or renamed while it was open");
    }
    return ErrnoFault("looking at", path_, errno);
  }
  if (info.st_dev == device_ && info.st_ino == number_) return Status::Ok();
  return StorageFault(path_ + " is another file now: something was put in its place");
}

}  // namespace topicdb
