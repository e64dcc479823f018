// A library to preload: the clocks of a process run ahead or behind as a file says.
//
// SHIFTED_CLOCK names a file of two numbers (i64, native): µs that are added to the clock of the
// day, and µs that are added to the clocks that count from the start of the machine. It is mapped,
// so the process itself, or another one, changes the time by writing to it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* offsets_us;
static int (*real_clock_gettime)(clockid_t, struct timespec*);

__attribute__((constructor)) static void map_offsets(void) {
  const char* path = getenv("SHIFTED_CLOCK");
  if (path == NULL) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) abort();
  void* mapped = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) abort();
  close(file);
  offsets_us = mapped;
}

static int64_t offset_of(clockid_t clock) {
  if (offsets_us == NULL) return 0;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) return offsets_us[0];
  return clock == CLOCK_BOOTTIME ? offsets_us[1] : 0;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  if (real_clock_gettime == NULL) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  const int outcome = real_clock_gettime(clock, now);
  if (outcome != 0) return outcome;
  const int64_t offset_us = offset_of(clock);
  int64_t nanoseconds = now->tv_nsec + offset_us % 1000000 * 1000;
  int64_t seconds = now->tv_sec + offset_us / 1000000;
  if (nanoseconds < 0) {
    nanoseconds += 1000000000;
    --seconds;
  } else if (nanoseconds >= 1000000000) {
    nanoseconds -= 1000000000;
    ++seconds;
  }
  now->tv_sec = (time_t)seconds;
  now->tv_nsec = (long)nanoseconds;
  return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec time;
  const int outcome = clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return outcome;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
