// System calls that Linux and macOS have in different forms. Elsewhere the core goes by POSIX.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

namespace topicdb {

// Returns when the content of a file was last changed, by what `stat` said about the file.
timespec ChangeTime(const struct stat& info);
// Exchanges the names of two files or directories in one step. Returns 0 or an errno: EINVAL,
// ENOSYS or ENOTSUP if the file system cannot do that.
int ExchangeNames(const std::string& a, const std::string& b);
// Brings what was written to a file onto the device, past the device's own cache. Returns 0 or an
// errno.
int SyncToDevice(int fd);
// Does the same with the names in a directory.
int SyncDirectoryToDevice(int fd);
// Reserves the first `size` bytes of a file, whose size stays. Returns 0 or an errno; 0 also where
// the system or the file system reserves nothing.
int ReserveSpace(int fd, std::uint64_t size);
// Gives the space of a part of a file back to the file system, if that is possible. The part then
// reads as zeros; otherwise it stays.
void ReleaseSpace(int fd, std::uint64_t offset, std::uint64_t size);
// Makes a pipe, which a child that runs another program does not inherit: its reading end, then its
// writing end. Returns nothing, and sets errno, if the process has no descriptor left.
std::optional<std::array<int, 2>> MakePipe();
// Returns the text by which the system names this start of the machine, a UUID. Returns an empty
// text if it has none.
std::string BootIdText();

}  // namespace topicdb
