#include "base/file/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <thread>

#include "base/file/descriptor_limit.h"
#include "base/file/file.h"
#include "base/file/system_calls.h"
#include "base/thread/mutex.h"
#include "base/thread/per_process.h"

namespace topicdb {

namespace {

constexpr std::chrono::milliseconds kLockPause(10);

// Owns a file descriptor and closes it. Not thread-safe.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // Returns the open file, which had this path when it was opened.
  Result<KnownFile> Known(const std::string& path) const {
    struct stat info{};
    if (fstat(fd_, &info) != 0) return ErrnoFault("looking at", path, errno);
    return KnownFile(path, info.st_dev, info.st_ino);
  }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The files that this process has locked. Record locks do not exclude other threads of the process,
// and closing any descriptor of a file drops the locks of the process on it. So Acquire must refuse
// a second FileLock before it opens the file. A forked child holds no lock of its parent, and
// begins with an empty table.
struct HeldLocks {
  // A file that this process has locked for sharing: its descriptor, and how many hold the lock.
  struct Shared {
    int fd;
    KnownFile file;
    std::size_t holders = 0;
  };

  Mutex mutex;
  std::set<std::string> keys TOPICDB_GUARDED_BY(mutex);
  std::map<std::string, Shared> shared TOPICDB_GUARDED_BY(mutex);
};

HeldLocks& GetHeldLocks() {
  static PerProcess<HeldLocks> held;
  return held.Get([] { return std::make_unique<HeldLocks>(); });
}

// Returns what identifies the file itself, whatever the path that leads to it.
Result<std::string> FileKey(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return ErrnoFault("looking at", path, errno);
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

struct flock WholeFile(short type) {
  struct flock request{};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  return request;
}

// Returns the error for a lock that failed. If the file system has no locks, says so and what to
// do.
Status LockFault(const std::string& path, int error_number) {
  Status status = ErrnoFault("locking", path, error_number);
  const bool unsupported = error_number == ENOLCK || error_number == EOPNOTSUPP ||
                           error_number == ENOSYS || error_number == EINVAL;
  if (!unsupported) return status;
  return StorageFault(status.message() +
                      "; this file system has no locks for files now, and without them two "
                      "processes could write at once: use a local file system, or have locks "
                      "enabled where it is mounted (NFS: lockd, and no 'nolock')");
}

// Locks the whole file, or returns kLocked with the pid of a process that has the lock. `type` is
// F_WRLCK, or F_RDLCK to share it.
Status LockDescriptor(int fd, short type, const std::string& path) {
  struct flock request = WholeFile(type);
  if (fcntl(fd, F_SETLK, &request) == 0) return Status::Ok();
  if (errno != EACCES && errno != EAGAIN) return LockFault(path, errno);
  request = WholeFile(type);
  const bool known = fcntl(fd, F_GETLK, &request) == 0 && request.l_type != F_UNLCK;
  const std::string holder = known ? "pid " + std::to_string(request.l_pid) : "another process";
  return Locked(path + " is locked by " + holder);
}

Status LockedHere(const std::string& path) {
  return Locked(path + " is locked by this process (pid " + std::to_string(getpid()) + ")");
}

}  // namespace

Status ErrnoFault(const std::string& action, const std::string& path, int error_number) {
  return StorageFault(action + " " + path + ": " + std::generic_category().message(error_number) +
                      DescriptorHint(error_number));
}

Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max) {
  TOPICDB_ASSIGN_OR_RETURN(const auto file, File::OpenForReading(path));
  std::string content;
  std::array<char, 4096> part;
  while (content.size() <= bytes_max) {
    TOPICDB_ASSIGN_OR_RETURN(const std::size_t count,
                             file->ReadAt(content.size(), part.data(), part.size()));
    if (count == 0) return content;
    content.append(part.data(), count);
  }
  return Corruption(path + " is larger than such a file can be");
}

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  {
    TOPICDB_ASSIGN_OR_RETURN(const auto file, File::CreateOrEmpty(temporary));
    TOPICDB_RETURN_IF_ERROR(file->WriteAt(0, content));
    TOPICDB_RETURN_IF_ERROR(file->Sync());
  }
  TOPICDB_RETURN_IF_ERROR(Rename(temporary, path));
  return SyncDirectory(ParentOf(path));
}

bool Exists(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0;
}

bool IsDirectory(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string FollowLink(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  if (size <= 0) return path;
  std::string followed(target.data(), static_cast<std::size_t>(size));
  return followed.front() == '/' ? followed : ParentOf(path) + "/" + followed;
}

Status SetLink(const std::string& path, const std::string& target) {
  const std::string made = path + ".link";
  if (unlink(made.c_str()) != 0 && errno != ENOENT) return ErrnoFault("removing", made, errno);
  if (symlink(target.c_str(), made.c_str()) != 0) return ErrnoFault("linking", made, errno);
  TOPICDB_RETURN_IF_ERROR(Rename(made, path));
  return SyncDirectory(ParentOf(path));
}

Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? Status::Ok()
                                               : ErrnoFault("renaming to", to, errno);
}

Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) != 0) return ErrnoFault("removing", path, errno);
  return SyncDirectory(ParentOf(path));
}

Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? ErrnoFault("removing", path, error.value()) : Status::Ok();
}

Status SyncDirectory(const std::string& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoFault("opening", path, errno);
  const int error = SyncDirectoryToDevice(fd.get());
  return error == 0 ? Status::Ok() : ErrnoFault("syncing", path, error);
}

Status CreateIfMissing(const std::string& path) {
  if (Exists(path)) return Status::Ok();
  const FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd.get() < 0 && errno != EEXIST) return ErrnoFault("creating", path, errno);
  return Status::Ok();
}

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return SyncDirectory(ParentOf(path));
  return errno == EEXIST ? Status::Ok() : ErrnoFault("creating directory", path, errno);
}

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
  if (directory == nullptr) return ErrnoFault("listing", path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::unique_ptr<FileLock>> FileLock::Acquire(const std::string& path) {
  TOPICDB_RETURN_IF_ERROR(CreateIfMissing(path));
  TOPICDB_ASSIGN_OR_RETURN(const std::string key, FileKey(path));
  HeldLocks& held = GetHeldLocks();
  const MutexLock lock(held.mutex);
  if (held.keys.contains(key) || held.shared.contains(key)) return LockedHere(path);
  FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoFault("opening", path, errno);
  TOPICDB_RETURN_IF_ERROR(LockDescriptor(fd.get(), F_WRLCK, path));
  TOPICDB_ASSIGN_OR_RETURN(KnownFile file, fd.Known(path));
  held.keys.insert(key);
  return std::unique_ptr<FileLock>(new FileLock(fd.release(), key, std::move(file)));
}

Result<std::unique_ptr<FileLock>> FileLock::AcquireWithin(const std::string& path,
                                                          std::chrono::microseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    auto lock = Acquire(path);
    const bool busy = !lock.ok() && lock.status().code() == Code::kLocked;
    if (!busy || std::chrono::steady_clock::now() >= deadline) return lock;
    std::this_thread::sleep_for(kLockPause);
  }
}

FileLock::~FileLock() {
  HeldLocks& held = GetHeldLocks();
  const MutexLock lock(held.mutex);
  close(fd_);
  held.keys.erase(key_);
}

Result<std::unique_ptr<SharedFileLock>> SharedFileLock::Acquire(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const std::string key, FileKey(path));
  HeldLocks& held = GetHeldLocks();
  const MutexLock lock(held.mutex);
  if (held.keys.contains(key)) return LockedHere(path);
  auto found = held.shared.find(key);
  if (found == held.shared.end()) {
    FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return ErrnoFault("opening", path, errno);
    TOPICDB_RETURN_IF_ERROR(LockDescriptor(fd.get(), F_RDLCK, path));
    TOPICDB_ASSIGN_OR_RETURN(KnownFile file, fd.Known(path));
    found = held.shared.emplace(key, HeldLocks::Shared{fd.release(), std::move(file)}).first;
  }
  ++found->second.holders;
  return std::unique_ptr<SharedFileLock>(new SharedFileLock(key, found->second.file));
}

SharedFileLock::~SharedFileLock() {
  HeldLocks& held = GetHeldLocks();
  const MutexLock lock(held.mutex);
  const auto found = held.shared.find(key_);
  if (found == held.shared.end() || --found->second.holders > 0) return;
  close(found->second.fd);
  held.shared.erase(found);
}

}  // namespace topicdb
