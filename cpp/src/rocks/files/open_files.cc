#include "rocks/files/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "base/file/descriptor_limit.h"
#include "base/thread/per_process.h"

namespace topicdb::rocks {

namespace {

constexpr std::uint64_t kLimitWanted = 65'536;  // of open files, for the process
constexpr std::size_t kOpenMin = 16;
constexpr int kOpenAttempts = 3;

rocksdb::IOStatus Fault(const std::string& doing, const std::string& path, int error_number) {
  const std::string text = std::generic_category().message(error_number);
  if (error_number == ENOENT) return rocksdb::IOStatus::PathNotFound(doing + ": " + path, text);
  return rocksdb::IOStatus::IOError(doing + ": " + path, text);
}

// Owns the descriptor of an open file. Reads share it, and the last one closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

int AdviceFor(rocksdb::FSRandomAccessFile::AccessPattern pattern) {
  switch (pattern) {
    case rocksdb::FSRandomAccessFile::kRandom:
      return POSIX_FADV_RANDOM;
    case rocksdb::FSRandomAccessFile::kSequential:
      return POSIX_FADV_SEQUENTIAL;
    case rocksdb::FSRandomAccessFile::kWillNeed:
      return POSIX_FADV_WILLNEED;
    case rocksdb::FSRandomAccessFile::kWontNeed:
      return POSIX_FADV_DONTNEED;
    case rocksdb::FSRandomAccessFile::kNormal:
      break;
  }
  return POSIX_FADV_NORMAL;
}

// Tells the kernel how a part of a file will be read. The kernel may ignore that, so errors do not
// matter.
void Advise(int fd, std::uint64_t offset, std::size_t bytes, int advice) {
  static_cast<void>(
      posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), advice));
}

}  // namespace

// A table file as RocksDB reads it, open or not. RocksDB owns it. Thread-safe.
class TableFile : public rocksdb::FSRandomAccessFile {
 public:
  TableFile(OpenFiles* files, std::string path, FilesOwner owner)
      : files_(files), path_(std::move(path)), owner_(owner) {}
  ~TableFile() override { files_->Remove(this); }

  // Opens the file for the first time. REQUIRES: no other thread knows of it
  rocksdb::IOStatus Begin() {
    std::shared_ptr<const Descriptor> descriptor;
    rocksdb::IOStatus status = Acquire(&descriptor);
    begun_ = status.ok();
    return status;
  }

  rocksdb::IOStatus Read(std::uint64_t offset, std::size_t bytes, const rocksdb::IOOptions&,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext*) const override {
    *result = rocksdb::Slice(scratch, 0);
    std::shared_ptr<const Descriptor> descriptor;
    rocksdb::IOStatus status = Acquire(&descriptor);
    if (!status.ok()) return status;
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t count =
          pread(descriptor->get(), scratch + done, bytes - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Fault("While reading", path_, errno);
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    *result = rocksdb::Slice(scratch, done);
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus Prefetch(std::uint64_t offset, std::size_t bytes, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override {
    return AdviseOf(offset, bytes, POSIX_FADV_WILLNEED);
  }
  rocksdb::IOStatus InvalidateCache(std::size_t offset, std::size_t bytes) override {
    return AdviseOf(offset, bytes, POSIX_FADV_DONTNEED);
  }

  void Hint(AccessPattern pattern) override {
    const MutexLock lock(mutex_);
    pattern_ = pattern;
    if (descriptor_ != nullptr) Advise(descriptor_->get(), 0, 0, AdviceFor(pattern));
  }

  // Where the file is in the list of OpenFiles, if it is there. The mutex of OpenFiles guards it.
  std::optional<std::list<TableFile*>::iterator> place;

  // Returns whether the file was read since the last call.
  bool TakeUsed() { return used_.exchange(false, std::memory_order_relaxed); }
  // Closes the file. Returns false if a thread is reading it: the end of the read closes it then,
  // too late for a caller that needs room now.
  bool Close() TOPICDB_EXCLUDES(mutex_) {
    std::shared_ptr<const Descriptor> closed;
    const MutexLock lock(mutex_);
    closed.swap(descriptor_);
    return closed.use_count() <= 1;
  }

 private:
  // What shows that a file of this name is the one that was opened first.
  struct Identity {
    dev_t device = 0;
    ino_t number = 0;
    off_t bytes = 0;
    bool operator==(const Identity&) const = default;
  };

  rocksdb::IOStatus AdviseOf(std::uint64_t offset, std::size_t bytes, int advice) const {
    std::shared_ptr<const Descriptor> descriptor;
    rocksdb::IOStatus status = Acquire(&descriptor);
    if (status.ok()) Advise(descriptor->get(), offset, bytes, advice);
    return status;
  }

  // Returns the descriptor of the file, and opens the file if it is closed. It stays open as long
  // as the caller has the descriptor.
  rocksdb::IOStatus Acquire(std::shared_ptr<const Descriptor>* descriptor) const
      TOPICDB_EXCLUDES(mutex_) {
    used_.store(true, std::memory_order_relaxed);
    {
      const MutexLock lock(mutex_);
      *descriptor = descriptor_;
    }
    if (*descriptor != nullptr) return rocksdb::IOStatus::OK();
    auto* const self = const_cast<TableFile*>(this);  // NOLINT: to open it changes nothing of it
    files_->MakeRoom();
    Identity found;
    rocksdb::IOStatus status = OpenAgain(descriptor, &found);
    if (!status.ok()) return status;
    bool is_new = false;
    {
      const MutexLock lock(mutex_);
      if (!identity_known_) identity_ = found;
      identity_known_ = true;
      if (!(identity_ == found)) return Gone("it is another file than the one that was opened");
      if (descriptor_ == nullptr) {
        Advise((*descriptor)->get(), 0, 0, AdviceFor(pattern_));
        descriptor_ = *descriptor;
        is_new = true;
      } else {  // another thread was faster
        *descriptor = descriptor_;
      }
    }
    if (is_new) files_->Add(self);
    return rocksdb::IOStatus::OK();
  }

  // Opens the file, and says which file was found.
  rocksdb::IOStatus OpenAgain(std::shared_ptr<const Descriptor>* descriptor, Identity* found) const
      TOPICDB_EXCLUDES(mutex_) {
    int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    for (int attempt = 1; fd < 0 && attempt < kOpenAttempts; ++attempt) {
      const bool is_full = errno == EMFILE || errno == ENFILE;
      if (errno != EINTR && (!is_full || files_->CloseIdle() == 0)) break;
      fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0 && errno == ENOENT) return Gone(std::generic_category().message(ENOENT));
    if (fd < 0) return Fault("While opening a file for reading", path_, errno);
    *descriptor = std::make_shared<const Descriptor>(fd);
    struct stat info{};
    if (fstat(fd, &info) != 0) return Fault("While looking at", path_, errno);
    *found = {info.st_dev, info.st_ino, info.st_size};
    return rocksdb::IOStatus::OK();
  }

  // Returns the error for a file that is gone, which tells a reader what to do.
  rocksdb::IOStatus Gone(const std::string& what) const {
    const std::string text =
        begun_ && owner_ == FilesOwner::kReader
            ? what +
                  ": the writer has replaced it since this handle was opened; refresh() it, or "
                  "open the database again, and read once more"
            : what;
    return rocksdb::IOStatus::PathNotFound("While opening a file for reading: " + path_, text);
  }

  OpenFiles* const files_;
  const std::string path_;
  const FilesOwner owner_;
  bool begun_ = false;  // constant once Begin has returned
  mutable std::atomic<bool> used_{true};
  mutable Mutex mutex_;
  mutable std::shared_ptr<const Descriptor> descriptor_ TOPICDB_GUARDED_BY(mutex_);
  mutable Identity identity_ TOPICDB_GUARDED_BY(mutex_);
  mutable bool identity_known_ TOPICDB_GUARDED_BY(mutex_) = false;
  AccessPattern pattern_ TOPICDB_GUARDED_BY(mutex_) = kNormal;
};

rocksdb::IOStatus OpenFiles::Open(const std::string& path, FilesOwner owner,
                                  std::unique_ptr<rocksdb::FSRandomAccessFile>* file) {
  auto opened = std::make_unique<TableFile>(this, path, owner);
  rocksdb::IOStatus status = opened->Begin();
  if (status.ok()) *file = std::move(opened);
  return status;
}

void OpenFiles::MakeRoom() {
  const MutexLock lock(mutex_);
  while (files_.size() >= open_max_ && CloseOne()) {
  }
}

bool OpenFiles::CloseOne() {
  // Looks at each file at most twice: the first look may only find that the file was read.
  for (std::size_t looks = 2 * files_.size(); looks > 0; --looks) {
    TableFile* const file = files_.front();
    if (file->TakeUsed()) {
      files_.splice(files_.end(), files_, files_.begin());
      continue;
    }
    files_.pop_front();
    file->place.reset();
    file->Close();
    return true;
  }
  return false;
}

std::size_t OpenFiles::CloseIdle() {
  const MutexLock lock(mutex_);
  std::size_t closed = 0;
  for (TableFile* const file : files_) {
    file->place.reset();
    if (file->Close()) ++closed;
  }
  files_.clear();
  return closed;
}

void OpenFiles::Add(TableFile* file) {
  const MutexLock lock(mutex_);
  file->place = files_.insert(files_.end(), file);
}

void OpenFiles::Remove(TableFile* file) {
  const MutexLock lock(mutex_);
  if (file->place.has_value()) files_.erase(*file->place);
}

std::size_t OpenFiles::open() const {
  const MutexLock lock(mutex_);
  return files_.size();
}

OpenFiles& ProcessOpenFiles() {
  static PerProcess<OpenFiles> files;
  return files.Get([] {
    const auto limit = static_cast<std::size_t>(RaiseDescriptorLimit(kLimitWanted));
    return std::make_unique<OpenFiles>(std::max<std::size_t>(limit / 2, kOpenMin));
  });
}

}  // namespace topicdb::rocks
