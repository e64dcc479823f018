#include "rocks/files/file_system.h"

#include <rocksdb/file_system.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "rocks/files/open_directories.h"
#include "rocks/files/process_threads.h"

namespace topicdb::rocks {

namespace {

// Returns whether RocksDB would store its options there.
bool IsOptionsFile(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("OPTIONS-");
}

rocksdb::IOStatus ToRocks(const Status& status) {
  return status.ok() ? rocksdb::IOStatus::OK() : rocksdb::IOStatus::IOError(status.message());
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
    rocksdb::IOStatus status = CheckInPlace(path);
    if (!status.ok()) return status;
    status =
        WithRoom([&] { return FileSystemWrapper::NewWritableFile(path, options, file, debug); });
    if (!status.ok() || !path.ends_with(".log")) return status;
    return ToRocks(ProcessOpenDirectories().NoteLog(path));
  }

  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = CheckInPlace(path);
    return status.ok() ? FileSystemWrapper::DeleteFile(path, options, debug) : status;
  }

  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = CheckInPlace(to);
    return status.ok() ? FileSystemWrapper::RenameFile(from, to, options, debug) : status;
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
  // Returns an error if the directory of this file was removed or replaced since a RocksDB has
  // opened it. The directory that has the path now may belong to somebody else.
  static rocksdb::IOStatus CheckInPlace(const std::string& path) {
    return ToRocks(ProcessOpenDirectories().CheckLog(DirectoryOf(path)));
  }

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
