#include "store/database/job_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file/files.h"

namespace topicdb {

namespace {
constexpr int kPatienceMs = 1'000;
}  // namespace

JobWatcher::JobWatcher(int notify_fd, int stop_fd, std::function<void()> changed)
    : notify_fd_(notify_fd),
      stop_fd_(stop_fd),
      changed_(std::move(changed)),
      thread_([this] { Run(); }) {}

Result<std::unique_ptr<JobWatcher>> JobWatcher::Start(const std::string& directory,
                                                      std::function<void()> changed) {
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) return ErrnoFault("watching", directory, errno);
  // The system limits the inotify descriptors of each user. Without one, the thread calls `changed`
  // from time to time only.
  const int notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (notify_fd >= 0) inotify_add_watch(notify_fd, directory.c_str(), IN_MOVED_TO);
  return std::unique_ptr<JobWatcher>(new JobWatcher(notify_fd, stop_fd, std::move(changed)));
}

JobWatcher::~JobWatcher() {
  const std::uint64_t one = 1;
  while (write(stop_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
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
