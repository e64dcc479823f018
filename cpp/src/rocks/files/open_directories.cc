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

}  // namespace

rocksdb::IOStatus OpenDirectories::Share(const std::string& path, const Open& open,
                                         std::unique_ptr<rocksdb::FSDirectory>* directory) {
  const MutexLock lock(mutex_);
  std::weak_ptr<rocksdb::FSDirectory>& known = known_[path];
  std::shared_ptr<rocksdb::FSDirectory> shared = known.lock();
  if (shared == nullptr) {
    std::unique_ptr<rocksdb::FSDirectory> opened;
    rocksdb::IOStatus status = open(&opened);
    if (!status.ok()) {
      known_.erase(path);
      return status;
    }
    shared = std::move(opened);
    known = shared;
    std::erase_if(known_, [](const auto& item) { return item.second.expired(); });
  }
  *directory = std::make_unique<SharedDirectory>(std::move(shared));
  return rocksdb::IOStatus::OK();
}

OpenDirectories& ProcessOpenDirectories() {
  static PerProcess<OpenDirectories> directories;
  return directories.Get([] { return std::make_unique<OpenDirectories>(); });
}

}  // namespace topicdb::rocks
