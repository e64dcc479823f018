// A library to preload into any program: it makes writes and fsyncs of files under one directory
// fail, as on a disk that breaks.
//
// FAIL_ROOT   the directory, as realpath gives it
// FAIL_FROM   the number of the first call that fails, counted from 1 over all threads
// FAIL_CALLS  how many calls fail; the ones after them work again
// FAIL_ERRNO  the error number of these calls; EIO if it is not set
// FAIL_LOCKS  the error number with which locking such a file fails; if not set, locking works
// FAIL_WHEN   calls count, and fail, only while there is this file; if not set, they always do
// FAIL_COUNT  a file that gets the number of calls when the process ends
// FAIL_TOLD   a file that is made when a call fails

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static long number_of(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

static int is_below_root(int fd) {
  const char* root = getenv("FAIL_ROOT");
  char link[64];
  char path[PATH_MAX];
  if (root == NULL) return 0;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return 0;
  path[size] = '\0';
  return strncmp(path, root, strlen(root)) == 0;
}

static int fails(int fd) {
  if (!is_below_root(fd)) return 0;
  const char* when = getenv("FAIL_WHEN");
  if (when != NULL && access(when, F_OK) != 0) return 0;
  long call = atomic_fetch_add(&calls, 1) + 1;
  long from = number_of("FAIL_FROM");
  if (from == 0 || call < from || call - from >= number_of("FAIL_CALLS")) return 0;
  const char* told = getenv("FAIL_TOLD");
  if (told != NULL) close(open(told, O_CREAT | O_WRONLY, 0666));
  long error = number_of("FAIL_ERRNO");
  errno = error == 0 ? EIO : (int)error;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void* data, size_t size) {
  return fails(fd) ? -1 : REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return fails(fd) ? -1 : REAL(pwrite)(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return fails(fd) ? -1 : REAL(pwrite64)(fd, data, size, offset);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  return fails(fd) ? -1 : REAL(writev)(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  return fails(fd) ? -1 : REAL(pwritev)(fd, parts, count, offset);
}
int fallocate(int fd, int mode, off_t offset, off_t size) {
  return fails(fd) ? -1 : REAL(fallocate)(fd, mode, offset, size);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  return fails(fd) ? -1 : REAL(fallocate64)(fd, mode, offset, size);
}
static int locks(int fd, int command, void* argument, int (*real)(int, int, ...)) {
  long error = command == F_SETLK || command == F_SETLKW ? number_of("FAIL_LOCKS") : 0;
  if (error == 0 || !is_below_root(fd)) return real(fd, command, argument);
  errno = (int)error;
  return -1;
}
int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return locks(fd, command, argument, REAL(fcntl));
}
int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return locks(fd, command, argument, REAL(fcntl64));
}
int fsync(int fd) { return fails(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails(fd) ? -1 : REAL(fdatasync)(fd); }

__attribute__((destructor)) static void tell(void) {
  const char* path = getenv("FAIL_COUNT");
  if (path == NULL) return;
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", atomic_load(&calls));
  fclose(file);
}
