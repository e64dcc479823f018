#include "rocks/files/open_directories.h"

#include <utility>

#include "base/thread/per_process.h"

namespace topicdb::rocks {

namespace {

// One of several handles on a directory, which share its descriptor.
class SharedDirectory : public rocksdb::FSDirectoryWrapper {
 public:
  explicit SharedDirectory(std::shared_ptr<rocksdb::FSDirectory> directory)
      : FSDirectoryWrapper(directory.get()), directory_(std::move(directory)) {}

  // The last one that is destroyed closes the descriptor.
  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::shared_ptr<rocksdb::FSDirectory> directory_;
};

// Returns a path without the slashes at its end, by which a directory is known.
std::string KeyOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

std::string DirectoryOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

rocksdb::IOStatus OpenDirectories::Share(const std::string& path, const Open& open,
                                         std::unique_ptr<rocksdb::FSDirectory>* directory) {
  const std::string key = KeyOf(path);
  const MutexLock lock(mutex_);
  Known& known = known_[key];
  std::shared_ptr<rocksdb::FSDirectory> shared = known.directory.lock();
  if (shared == nullptr) {
    std::unique_ptr<rocksdb::FSDirectory> opened;
    rocksdb::IOStatus status = open(&opened);
    if (!status.ok()) {
      known_.erase(key);
      return status;
    }
    shared = std::move(opened);
    known = {shared, nullptr};
    std::erase_if(known_, [](const auto& item) { return item.second.directory.expired(); });
  }
  *directory = std::make_unique<SharedDirectory>(std::move(shared));
  return rocksdb::IOStatus::OK();
}

Status OpenDirectories::NoteLog(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(KnownFile log, KnownFile::At(path));
  const MutexLock lock(mutex_);
  const auto known = known_.find(KeyOf(DirectoryOf(path)));
  if (known == known_.end() || known->second.directory.expired()) return Status::Ok();
  known->second.log = std::make_shared<const KnownFile>(std::move(log));
  return Status::Ok();
}

Status OpenDirectories::CheckLog(const std::string& directory) const {
  const std::string key = KeyOf(directory);
  while (true) {
    const std::shared_ptr<const KnownFile> log = LogIn(key);
    if (log == nullptr) return Status::Ok();
    Status status = log->CheckInPlace();
    // RocksDB removes a log that it does not write any more. NoteLog was told of the next one then.
    if (status.ok() || LogIn(key) == log) return status;
  }
}

std::shared_ptr<const KnownFile> OpenDirectories::LogIn(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto known = known_.find(key);
  const bool is_open = known != known_.end() && !known->second.directory.expired();
  return is_open ? known->second.log : nullptr;
}

OpenDirectories& ProcessOpenDirectories() {
  static PerProcess<OpenDirectories> directories;
  return directories.Get([] { return std::make_unique<OpenDirectories>(); });
}

}  // namespace topicdb::rocks
