#include "base/file/system_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#ifdef __APPLE__
#include <sys/sysctl.h>
#elif !defined(__GLIBC__)
#include <linux/fs.h>
#include <sys/syscall.h>
#endif

namespace topicdb {

namespace {

int ErrnoOf(int outcome) { return outcome == 0 ? 0 : errno; }

}  // namespace

#ifdef __APPLE__

timespec ChangeTime(const struct stat& info) { return info.st_mtimespec; }

int ExchangeNames(const std::string& a, const std::string& b) {
  return ErrnoOf(renamex_np(a.c_str(), b.c_str(), RENAME_SWAP));
}

int SyncToDevice(int fd) {
  // fsync leaves data in the cache of the device, which a loss of power empties.
  if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
  return ErrnoOf(fsync(fd));  // the file system, such as one of a network, knows no other
}

int SyncDirectoryToDevice(int fd) { return SyncToDevice(fd); }

int ReserveSpace(int /*fd*/, std::uint64_t /*size*/) { return 0; }

void ReleaseSpace(int /*fd*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) {}

std::optional<std::array<int, 2>> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::nullopt;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  return ends;
}

std::string BootIdText() {
  std::array<char, 64> text{};
  std::size_t size = text.size() - 1;
  const int outcome = sysctlbyname("kern.bootsessionuuid", text.data(), &size, nullptr, 0);
  return outcome == 0 ? std::string(text.data()) : std::string();
}

#else

timespec ChangeTime(const struct stat& info) { return info.st_mtim; }

int ExchangeNames(const std::string& a, const std::string& b) {
#ifdef __GLIBC__
  return ErrnoOf(renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE));
#else  // musl has no such function
  const auto outcome =
      syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  return ErrnoOf(static_cast<int>(outcome));
#endif
}

int SyncToDevice(int fd) { return ErrnoOf(fdatasync(fd)); }

int SyncDirectoryToDevice(int fd) { return ErrnoOf(fsync(fd)); }

int ReserveSpace(int fd, std::uint64_t size) {
  int error = 0;
  do {
    error = ErrnoOf(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)));
  } while (error == EINTR);
  return error == EOPNOTSUPP || error == ENOSYS ? 0 : error;
}

void ReleaseSpace(int fd, std::uint64_t offset, std::uint64_t size) {
  static_cast<void>(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(offset), static_cast<off_t>(size)));
}

std::optional<std::array<int, 2>> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  return ends;
}

std::string BootIdText() {
  std::array<char, 64> text{};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  return size < 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

#endif

}  // namespace topicdb
