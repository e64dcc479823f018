// A library to preload into any program: it records what the process, and the processes that it
// forks or starts, do to the files under one directory, in one order, in one file.
//
// CRASH_ROOT      the directory, as realpath gives it
// CRASH_TRACE     the file that the trace goes to; trace.py describes and reads it
// CRASH_IGNORE    patterns of names of files that it leaves out, separated by ':'
// CRASH_CLOCK_S   seconds that it adds to the clock of the day, so that later the clock steps back
//
// Without CRASH_ROOT it records nothing, and only keeps files in memory from reserving space.
//
// It makes and records every call under one lock, so the trace has the order in which the calls
// took effect. A call that the trace could not express ends the process with a message: a writable
// shared mapping, a symbolic link, a stream of stdio.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum Kind {
  kOpen = 1,
  kWrite = 2,
  kTruncate = 3,
  kZero = 4,
  kRename = 5,
  kUnlink = 6,
  kLink = 7,
  kMakeDirectory = 8,
  kRemoveDirectory = 9,
  kSync = 10,
  kSyncAll = 11,
  kMark = 12,
  kSymlink = 13,
};

struct __attribute__((packed)) Header {
  uint32_t kind;
  uint32_t thread;
  uint64_t handle;
  int64_t first;
  int64_t second;
  uint32_t name_bytes;
  uint32_t data_bytes;
};

// What a descriptor refers to. It keeps the file's identity, because closedir and fclose close a
// descriptor unseen, and the kernel may then give its number to something else.
struct Descriptor {
  uint64_t handle;
  dev_t device;
  ino_t inode;
};

#define DESCRIPTORS_MAX 65536
#define PATH_BYTES (PATH_MAX * 2)

static struct Descriptor descriptors[DESCRIPTORS_MAX];
static char root[PATH_MAX];
static size_t root_bytes;
static char ignored[1024];
static int trace_fd = -1;
static int64_t clock_offset_s;
static uint64_t handles;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void Fail(const char* what, const char* name) {
  char text[PATH_BYTES + 256];
  const int bytes = snprintf(text, sizeof text, "crash shim: %s: %s\n", what, name);
  syscall(SYS_write, 2, text, bytes);
  abort();
}

// A record lock excludes other processes; the mutex excludes other threads.
static void LockTrace(short type) {
  struct flock request = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  while (syscall(SYS_fcntl, trace_fd, F_SETLKW, &request) != 0) {
    if (errno != EINTR) Fail("cannot lock the trace", strerror(errno));
  }
}

static void Lock(void) {
  pthread_mutex_lock(&mutex);
  LockTrace(F_WRLCK);
}

static void Unlock(void) {
  const int saved = errno;
  LockTrace(F_UNLCK);
  pthread_mutex_unlock(&mutex);
  errno = saved;
}

static void BeforeFork(void) { pthread_mutex_lock(&mutex); }
static void AfterFork(void) { pthread_mutex_unlock(&mutex); }

__attribute__((constructor)) static void Begin(void) {
  const char* directory = getenv("CRASH_ROOT");
  const char* trace = getenv("CRASH_TRACE");
  const char* patterns = getenv("CRASH_IGNORE");
  const char* seconds = getenv("CRASH_CLOCK_S");
  if (directory == NULL || trace == NULL) return;
  snprintf(root, sizeof root, "%s", directory);
  root_bytes = strlen(root);
  if (patterns != NULL) snprintf(ignored, sizeof ignored, "%s", patterns);
  if (seconds != NULL) clock_offset_s = atoll(seconds);
  trace_fd =
      (int)syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  // A high number is out of the way of programs that count on low ones.
  const int high = (int)syscall(SYS_fcntl, trace_fd, F_DUPFD_CLOEXEC, 900);
  if (high < 0) Fail("cannot open the trace", trace);
  syscall(SYS_close, trace_fd);
  trace_fd = high;
  pthread_atfork(BeforeFork, AfterFork, AfterFork);
}

static void Record(enum Kind kind, uint64_t handle, int64_t first, int64_t second, const char* name,
                   const struct iovec* parts, int count, size_t bytes) {
  const int saved = errno;
  struct Header header = {.kind = kind,
                          .thread = (uint32_t)syscall(SYS_gettid),
                          .handle = handle,
                          .first = first,
                          .second = second,
                          .name_bytes = (uint32_t)strlen(name)};
  struct iovec record[IOV_MAX];
  record[0] = (struct iovec){&header, sizeof header};
  record[1] = (struct iovec){(void*)name, header.name_bytes};
  int used = 2;
  size_t left = bytes;
  for (int i = 0; i < count && left > 0; ++i) {
    if (used == IOV_MAX) Fail("too many parts in one write", name);
    const size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
    record[used++] = (struct iovec){parts[i].iov_base, part};
    left -= part;
  }
  header.data_bytes = (uint32_t)(bytes - left);
  const ssize_t wanted = (ssize_t)(sizeof header + header.name_bytes + header.data_bytes);
  if (syscall(SYS_writev, trace_fd, record, used) != wanted) Fail("cannot write the trace", name);
  errno = saved;
}

// Removes empty, '.' and '..' levels of an absolute path, in place.
static void Normalise(char* path) {
  char* out = path;
  for (const char* in = path; *in != '\0';) {
    while (*in == '/') ++in;
    const size_t bytes = strcspn(in, "/");
    if (bytes == 2 && in[0] == '.' && in[1] == '.') {
      while (out > path && *--out != '/') continue;
    } else if (bytes > 0 && !(bytes == 1 && in[0] == '.')) {
      *out++ = '/';
      memmove(out, in, bytes);
      out += bytes;
    }
    in += bytes;
  }
  *out = '\0';
}

// Returns the path relative to the root ("" for the root itself), or NULL if it is not recorded.
static const char* Traced(int directory, const char* path, char* buffer) {
  if (trace_fd < 0 || path == NULL) return NULL;
  const int saved = errno;
  size_t used = 0;
  if (path[0] != '/') {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t bytes = directory == AT_FDCWD
                              ? (getcwd(buffer, PATH_MAX) == NULL ? -1 : (ssize_t)strlen(buffer))
                              : syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
    errno = saved;
    if (bytes < 0) return NULL;
    used = (size_t)bytes;
    buffer[used++] = '/';
  }
  snprintf(buffer + used, PATH_BYTES - used, "%s", path);
  Normalise(buffer);
  if (strncmp(buffer, root, root_bytes) != 0) return NULL;
  if (buffer[root_bytes] == '\0') return buffer + root_bytes;
  if (buffer[root_bytes] != '/') return NULL;
  const char* name = strrchr(buffer, '/') + 1;
  char patterns[sizeof ignored];
  memcpy(patterns, ignored, sizeof ignored);
  char* rest = NULL;
  for (char* one = strtok_r(patterns, ":", &rest); one != NULL; one = strtok_r(NULL, ":", &rest)) {
    if (fnmatch(one, name, 0) == 0) return NULL;
  }
  return buffer + root_bytes + 1;
}

// Returns what a descriptor refers to, or NULL if it is not recorded.
static struct Descriptor* Find(int fd) {
  if (trace_fd < 0 || fd < 0 || fd >= DESCRIPTORS_MAX || descriptors[fd].handle == 0) return NULL;
  const int saved = errno;
  struct stat info;
  const int known = fstat(fd, &info);
  errno = saved;
  struct Descriptor* found = &descriptors[fd];
  if (known == 0 && info.st_dev == found->device && info.st_ino == found->inode) return found;
  found->handle = 0;
  return NULL;
}

static void Forget(int fd) {
  if (fd >= 0 && fd < DESCRIPTORS_MAX) descriptors[fd].handle = 0;
}

static void Copy(int from, int to) {
  if (to < 0 || to >= DESCRIPTORS_MAX) return;
  const struct Descriptor* found = Find(from);
  descriptors[to] = found == NULL ? (struct Descriptor){0} : *found;
}

static int OpenAt(int directory, const char* path, int flags, mode_t mode) {
  char buffer[PATH_BYTES];
  const char* name = Traced(directory, path, buffer);
  // A crash leaves nothing of a file without a name. Giving it a name later ends the process.
  const int is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
  if (name == NULL || is_nameless) {
    const int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    Forget(fd);
    return fd;
  }
  Lock();
  const int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
  if (fd >= DESCRIPTORS_MAX) Fail("too many open files", name);
  if (fd >= 0) {
    struct stat info;
    if (fstat(fd, &info) != 0) Fail("cannot look at", name);
    const uint64_t handle = ((uint64_t)getpid() << 32) | ++handles;
    descriptors[fd] = (struct Descriptor){handle, info.st_dev, info.st_ino};
    Record(kOpen, handle, flags, 0, name, NULL, 0, 0);
  }
  Unlock();
  return fd;
}

#define OPTIONAL_MODE(flags, mode)                \
  mode_t mode = 0;                                \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
    va_list arguments;                            \
    va_start(arguments, flags);                   \
    mode = (mode_t)va_arg(arguments, int);        \
    va_end(arguments);                            \
  }

int open(const char* path, int flags, ...) {
  OPTIONAL_MODE(flags, mode)
  return OpenAt(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  OPTIONAL_MODE(flags, mode)
  return OpenAt(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  OPTIONAL_MODE(flags, mode)
  return OpenAt(directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  OPTIONAL_MODE(flags, mode)
  return OpenAt(directory, path, flags | O_LARGEFILE, mode);
}
int __open_2(const char* path, int flags) { return OpenAt(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return OpenAt(AT_FDCWD, path, flags, 0); }
int __openat_2(int directory, const char* path, int flags) {
  return OpenAt(directory, path, flags, 0);
}
int __openat64_2(int directory, const char* path, int flags) {
  return OpenAt(directory, path, flags, 0);
}
int creat(const char* path, mode_t mode) {
  return OpenAt(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) {
  return OpenAt(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

// The functions of stdio write past this library, so a stream that writes ends the process.
static int Writes(const char* mode) { return strpbrk(mode, "wa+") != NULL; }

static FILE* OpenStream(const char* symbol, const char* path, const char* mode) {
  char buffer[PATH_BYTES];
  const char* name = Writes(mode) ? Traced(AT_FDCWD, path, buffer) : NULL;
  if (name != NULL) Fail("a stream of stdio writes past the trace", name);
  FILE* (*next)(const char*, const char*) =
      (FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, symbol);
  FILE* stream = next(path, mode);
  if (stream != NULL) Forget(fileno(stream));
  return stream;
}

FILE* fopen(const char* path, const char* mode) { return OpenStream("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return OpenStream("fopen64", path, mode); }
FILE* fdopen(int fd, const char* mode) {
  if (Writes(mode) && Find(fd) != NULL) Fail("a stream of stdio writes past the trace", mode);
  FILE* (*next)(int, const char*) = (FILE * (*)(int, const char*)) dlsym(RTLD_NEXT, "fdopen");
  return next(fd, mode);
}

int close(int fd) {
  if (fd == trace_fd && fd >= 0) return 0;  // some programs close all descriptors
  if (trace_fd < 0 || fd < 0 || fd >= DESCRIPTORS_MAX || descriptors[fd].handle == 0) {
    return (int)syscall(SYS_close, fd);
  }
  Lock();  // no other call may get the number before it is forgotten
  Forget(fd);
  const int outcome = (int)syscall(SYS_close, fd);
  Unlock();
  return outcome;
}

int dup(int fd) {
  const int copy = (int)syscall(SYS_dup, fd);
  Copy(fd, copy);
  return copy;
}
int dup3(int fd, int to, int flags) {
  const int copy = (int)syscall(SYS_dup3, fd, to, flags);
  if (copy >= 0) Copy(fd, copy);
  return copy;
}
int dup2(int fd, int to) { return fd == to ? fd : dup3(fd, to, 0); }

static int Control(int fd, int command, void* argument) {
  const int outcome = (int)syscall(SYS_fcntl, fd, command, argument);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) Copy(fd, outcome);
  return outcome;
}
int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return Control(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return Control(fd, command, argument);
}

// Writes at `offset`, or at the position of the descriptor if `offset` is negative.
static ssize_t WriteParts(int fd, const struct iovec* parts, int count, off_t offset) {
  const int positioned = offset >= 0;
  if (Find(fd) == NULL) {
    return positioned ? syscall(SYS_pwritev, fd, parts, count, offset, 0)
                      : syscall(SYS_writev, fd, parts, count);
  }
  Lock();
  const struct Descriptor* file = Find(fd);
  const int appends = (syscall(SYS_fcntl, fd, F_GETFL, 0) & O_APPEND) != 0;
  int64_t at = offset;
  if (appends) {
    struct stat info;
    if (fstat(fd, &info) != 0) Fail("cannot look at", "a file");
    at = info.st_size;
  } else if (!positioned) {
    at = lseek(fd, 0, SEEK_CUR);
  }
  const ssize_t written = positioned ? syscall(SYS_pwritev, fd, parts, count, offset, 0)
                                     : syscall(SYS_writev, fd, parts, count);
  if (written > 0 && file != NULL) {
    Record(kWrite, file->handle, at, 0, "", parts, count, (size_t)written);
  }
  Unlock();
  return written;
}

ssize_t write(int fd, const void* data, size_t bytes) {
  if (Find(fd) == NULL) return syscall(SYS_write, fd, data, bytes);
  const struct iovec part = {(void*)data, bytes};
  return WriteParts(fd, &part, 1, -1);
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  if (Find(fd) == NULL) return syscall(SYS_pwrite64, fd, data, bytes, offset);
  const struct iovec part = {(void*)data, bytes};
  return WriteParts(fd, &part, 1, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  return pwrite(fd, data, bytes, offset);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  return WriteParts(fd, parts, count, -1);
}
ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  return WriteParts(fd, parts, count, offset);
}
ssize_t pwritev64(int fd, const struct iovec* parts, int count, off_t offset) {
  return WriteParts(fd, parts, count, offset);
}
ssize_t pwritev2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  if (flags != 0 && Find(fd) != NULL) Fail("flags of a write are not recorded", "pwritev2");
  return WriteParts(fd, parts, count, offset);
}
ssize_t pwritev64v2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  return pwritev2(fd, parts, count, offset, flags);
}

static ssize_t Refuse(int fd, const char* what) {
  if (Find(fd) != NULL) Fail("not recorded", what);
  return -1;
}
ssize_t copy_file_range(int in, off_t* in_at, int out, off_t* out_at, size_t bytes,
                        unsigned flags) {
  Refuse(out, "copy_file_range");
  return syscall(SYS_copy_file_range, in, in_at, out, out_at, bytes, flags);
}
ssize_t sendfile(int out, int in, off_t* offset, size_t bytes) {
  Refuse(out, "sendfile");
  return syscall(SYS_sendfile, out, in, offset, bytes);
}
ssize_t sendfile64(int out, int in, off_t* offset, size_t bytes) {
  return sendfile(out, in, offset, bytes);
}
ssize_t splice(int in, off_t* in_at, int out, off_t* out_at, size_t bytes, unsigned flags) {
  Refuse(out, "splice");
  return syscall(SYS_splice, in, in_at, out, out_at, bytes, flags);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if ((protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0) {
    Refuse(fd, "a writable shared mapping");
  }
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(address, bytes, protection, flags, fd, offset);
}

// Makes a call about a file that has a descriptor; if it succeeds, records the other arguments.
#define CALL_ON(fd, call, ...)                           \
  if (Find(fd) == NULL) return (int)(call);              \
  Lock();                                                \
  const struct Descriptor* file = Find(fd);              \
  const int outcome = (int)(call);                       \
  if (outcome == 0 && file != NULL) Record(__VA_ARGS__); \
  Unlock();                                              \
  return outcome

int ftruncate(int fd, off_t size) {
  CALL_ON(fd, syscall(SYS_ftruncate, fd, size), kTruncate, file->handle, size, 0, "", NULL, 0, 0);
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int truncate(const char* path, off_t size) {
  const int fd = open(path, O_WRONLY);
  if (fd < 0) return -1;
  const int outcome = ftruncate(fd, size);
  close(fd);
  return outcome;
}
int truncate64(const char* path, off_t size) { return truncate(path, size); }

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  // This only reserves space. In memory, where states are made, it would take most of the time.
  if (mode == FALLOC_FL_KEEP_SIZE) return 0;
  if (mode != 0) Refuse(fd, "fallocate with such a mode");
  CALL_ON(fd, syscall(SYS_fallocate, fd, mode, offset, bytes), kZero, file->handle, offset, bytes,
          "", NULL, 0, 0);
}
int fallocate64(int fd, int mode, off_t offset, off_t bytes) {
  return fallocate(fd, mode, offset, bytes);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  return fallocate(fd, 0, offset, bytes) == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off_t offset, off_t bytes) {
  return posix_fallocate(fd, offset, bytes);
}
int fsync(int fd) {
  CALL_ON(fd, syscall(SYS_fsync, fd), kSync, file->handle, 0, 0, "", NULL, 0, 0);
}
int fdatasync(int fd) {
  CALL_ON(fd, syscall(SYS_fdatasync, fd), kSync, file->handle, 1, 0, "", NULL, 0, 0);
}
void sync(void) {
  syscall(SYS_sync);
  if (trace_fd < 0) return;
  Lock();
  Record(kSyncAll, 0, 0, 0, "", NULL, 0, 0);
  Unlock();
}
int syncfs(int fd) {
  sync();
  return (int)syscall(SYS_syncfs, fd);
}

// Makes and records a call about one name.
static int NameCall(enum Kind kind, int directory, const char* path, int argument) {
  char buffer[PATH_BYTES];
  const char* name = Traced(directory, path, buffer);
  if (name != NULL) Lock();
  const int outcome = kind == kMakeDirectory
                          ? (int)syscall(SYS_mkdirat, directory, path, argument)
                          : (int)syscall(SYS_unlinkat, directory, path, argument);
  if (name == NULL) return outcome;
  if (outcome == 0) Record(kind, 0, 0, 0, name, NULL, 0, 0);
  Unlock();
  return outcome;
}

int unlinkat(int directory, const char* path, int flags) {
  const int removes_directory = (flags & AT_REMOVEDIR) != 0;
  return NameCall(removes_directory ? kRemoveDirectory : kUnlink, directory, path, flags);
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  if (unlink(path) == 0) return 0;
  return errno == EISDIR || errno == EPERM ? rmdir(path) : -1;
}
int mkdirat(int directory, const char* path, mode_t mode) {
  return NameCall(kMakeDirectory, directory, path, (int)mode);
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

// Makes a call about two names, and records the old one as the name and the new one as data.
static int PairCall(enum Kind kind, int from, const char* old_path, int to, const char* new_path,
                    unsigned flags) {
  char old_buffer[PATH_BYTES];
  char new_buffer[PATH_BYTES];
  const char* old_name = Traced(from, old_path, old_buffer);
  const char* new_name = Traced(to, new_path, new_buffer);
  const int traced = old_name != NULL || new_name != NULL;
  if (traced && (old_name == NULL || new_name == NULL)) {
    Fail("one of two names is outside, or ignored", old_name == NULL ? new_name : old_name);
  }
  const unsigned known_flags = RENAME_NOREPLACE | RENAME_EXCHANGE;
  if (traced && kind == kRename && (flags & ~known_flags) != 0) {
    Fail("flags of renameat2 are not recorded", old_name);
  }
  if (traced) Lock();
  const int outcome = kind == kRename
                          ? (int)syscall(SYS_renameat2, from, old_path, to, new_path, flags)
                          : (int)syscall(SYS_linkat, from, old_path, to, new_path, flags);
  if (!traced) return outcome;
  const struct iovec part = {(void*)new_name, strlen(new_name)};
  const int exchanges = kind == kRename && (flags & RENAME_EXCHANGE) != 0;
  if (outcome == 0) Record(kind, 0, exchanges, 0, old_name, &part, 1, part.iov_len);
  Unlock();
  return outcome;
}

int renameat2(int from, const char* old_path, int to, const char* new_path, unsigned flags) {
  return PairCall(kRename, from, old_path, to, new_path, flags);
}
int renameat(int from, const char* old_path, int to, const char* new_path) {
  return PairCall(kRename, from, old_path, to, new_path, 0);
}
int rename(const char* old_path, const char* new_path) {
  return PairCall(kRename, AT_FDCWD, old_path, AT_FDCWD, new_path, 0);
}
int linkat(int from, const char* old_path, int to, const char* new_path, int flags) {
  return PairCall(kLink, from, old_path, to, new_path, (unsigned)flags);
}
int link(const char* old_path, const char* new_path) {
  return PairCall(kLink, AT_FDCWD, old_path, AT_FDCWD, new_path, 0);
}
int symlinkat(const char* target, int directory, const char* path) {
  char buffer[PATH_BYTES];
  const char* name = Traced(directory, path, buffer);
  if (name == NULL) return (int)syscall(SYS_symlinkat, target, directory, path);
  if (strchr(target, '/') != NULL) Fail("a symbolic link to another directory", target);
  Lock();
  const int outcome = (int)syscall(SYS_symlinkat, target, directory, path);
  const struct iovec part = {(void*)target, strlen(target)};
  if (outcome == 0) Record(kSymlink, 0, 0, 0, name, &part, 1, part.iov_len);
  Unlock();
  return outcome;
}
int symlink(const char* target, const char* path) { return symlinkat(target, AT_FDCWD, path); }

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*next)(clockid_t, struct timespec*);
  if (next == NULL) next = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int outcome = next(clock, now);
  if (outcome == 0 && clock == CLOCK_REALTIME) now->tv_sec += clock_offset_s;
  return outcome;
}

// Puts a mark into the trace. The program finds this function through dlsym.
void crash_mark(const void* data, size_t bytes) {
  if (trace_fd < 0) return;
  const struct iovec part = {(void*)data, bytes};
  Lock();
  Record(kMark, 0, 0, 0, "", &part, 1, bytes);
  Unlock();
}
