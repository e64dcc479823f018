#include "store/database/job_watcher.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file/files.h"
#include "base/file/system_calls.h"

#ifdef __linux__
#include <sys/inotify.h>
#endif

namespace topicdb {

namespace {
constexpr int kPatienceMs = 1'000;

// Returns a descriptor that can be read when something in the directory gets a new name, or -1.
// Linux limits how many of them each user has, and other systems have none; then the thread calls
// `changed` from time to time only.
int NotifyOf(const std::string& directory) {
#ifdef __linux__
  const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd >= 0) inotify_add_watch(fd, directory.c_str(), IN_MOVED_TO);
  return fd;
#else
  static_cast<void>(directory);
  return -1;
#endif
}
}  // namespace

JobWatcher::JobWatcher(int notify_fd, std::array<int, 2> stop, std::function<void()> changed)
    : notify_fd_(notify_fd),
      stop_fd_(stop[0]),
      stop_writer_fd_(stop[1]),
      changed_(std::move(changed)),
      thread_([this] { Run(); }) {}

Result<std::unique_ptr<JobWatcher>> JobWatcher::Start(const std::string& directory,
                                                      std::function<void()> changed) {
  const auto stop = MakePipe();
  if (!stop.has_value()) return ErrnoFault("watching", directory, errno);
  return std::unique_ptr<JobWatcher>(
      new JobWatcher(NotifyOf(directory), *stop, std::move(changed)));
}

JobWatcher::~JobWatcher() {
  // Closing the end would not do: a child that was forked has it, too.
  const char stop = 1;
  while (write(stop_writer_fd_, &stop, sizeof stop) < 0 && errno == EINTR) {
  }
  thread_.join();
  close(stop_writer_fd_);
  close(stop_fd_);
  if (notify_fd_ >= 0) close(notify_fd_);
}

void JobWatcher::Run() {
  while (true) {
    std::array<pollfd, 2> events{{{stop_fd_, POLLIN, 0}, {notify_fd_, POLLIN, 0}}};
    poll(events.data(), events.size(), kPatienceMs);  // a negative descriptor is passed over
    if (events[0].revents != 0) return;
    std::array<char, 4096> seen;
    while (notify_fd_ >= 0 && read(notify_fd_, seen.data(), seen.size()) > 0) {
    }
    changed_();
  }
}

}  // namespace topicdb
