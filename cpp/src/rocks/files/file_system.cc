#include "rocks/files/file_system.h"

#include <rocksdb/file_system.h>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/thread/mutex.h"
#include "base/thread/per_process.h"
#include "rocks/files/process_threads.h"

namespace topicdb::rocks {

namespace {

// Returns whether RocksDB would store its options there.
bool IsOptionsFile(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("OPTIONS-");
}

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

// The directories that are open in this process. RocksDB opens the directory of a shard once for
// each column family, and keeps it open to fsync it. A process has one such object. Thread-safe.
class OpenDirectories {
 public:
  using Open = std::function<rocksdb::IOStatus(std::unique_ptr<rocksdb::FSDirectory>*)>;

  // Opens the directory unless another handle has it open.
  rocksdb::IOStatus Share(const std::string& path, const Open& open,
                          std::unique_ptr<rocksdb::FSDirectory>* directory)
      TOPICDB_EXCLUDES(mutex_) {
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

 private:
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<rocksdb::FSDirectory>> known_ TOPICDB_GUARDED_BY(mutex_);
};

OpenDirectories& ProcessOpenDirectories() {
  static PerProcess<OpenDirectories> directories;
  return directories.Get([] { return std::make_unique<OpenDirectories>(); });
}

// The file system of the machine, with what file_system.h says. It lives as long as the process.
// Thread-safe.
class TableFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit TableFileSystem(FilesOwner owner)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), owner_(owner) {}

  const char* Name() const override { return "TopicDB"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    const bool is_plain = !options.use_direct_reads && !options.use_mmap_reads;
    if (is_plain) return ProcessOpenFiles().Open(path, owner_, file);
    return FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    if (IsOptionsFile(path)) return rocksdb::IOStatus::NotSupported("TopicDB stores no options");
    return WithRoom([&] { return FileSystemWrapper::NewWritableFile(path, options, file, debug); });
  }

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override {
    return WithRoom(
        [&] { return FileSystemWrapper::NewSequentialFile(path, options, file, debug); });
  }

  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override {
    const auto open = [&](std::unique_ptr<rocksdb::FSDirectory>* opened) {
      return WithRoom(
          [&] { return FileSystemWrapper::NewDirectory(path, options, opened, debug); });
    };
    return ProcessOpenDirectories().Share(path, open, directory);
  }

  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override {
    return WithRoom([&] { return FileSystemWrapper::GetChildren(path, options, names, debug); });
  }

  // A TableFile reads when it is asked, and not ahead in the background.
  void SupportedOps(std::int64_t& operations) override {
    FileSystemWrapper::SupportedOps(operations);
    operations &= ~(std::int64_t{1} << rocksdb::FSSupportedOps::kAsyncIO);
  }

 private:
  // Opens something that stays open as long as it is used. If the process has too many files open,
  // closes table files that are not being read, and tries once more.
  template <typename Open>
  static rocksdb::IOStatus WithRoom(Open open) {
    static const std::string kTooMany = std::generic_category().message(EMFILE);
    rocksdb::IOStatus status = open();
    const bool is_full =
        status.IsIOError() && status.ToString().find(kTooMany) != std::string::npos;
    return is_full && ProcessOpenFiles().CloseIdle() > 0 ? open() : status;
  }

  const FilesOwner owner_;
};

rocksdb::Env* MakeEnv(FilesOwner owner) {
  return rocksdb::NewCompositeEnv(std::make_shared<TableFileSystem>(owner)).release();
}

}  // namespace

rocksdb::Env* EnvOf(FilesOwner owner) {
  static rocksdb::Env* const writers = MakeEnv(FilesOwner::kWriter);
  static rocksdb::Env* const forked_writers = WithoutPool(writers).release();
  static rocksdb::Env* const readers = WithoutPool(MakeEnv(FilesOwner::kReader)).release();
  if (owner == FilesOwner::kReader) return readers;
  return HasPool() ? writers : forked_writers;
}

}  // namespace topicdb::rocks
