// How a thread lets others go first.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace topicdb {

// Has the calling thread get a processor only while others leave it one. It cannot be undone. Linux
// only; elsewhere this does nothing.
inline void TakeLowPriority() {
#ifdef __linux__
  constexpr int kNicest = 19;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, thread, kNicest);  // if not, the thread is as others are
#endif
}

}  // namespace topicdb
