#include "base/thread/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace topicdb {

Status RunInParallel(std::size_t tasks, const std::function<Status(std::size_t)>& run) {
  constexpr std::size_t kThreadsMax = 8;
  const std::size_t threads_wanted =
      std::min({tasks, kThreadsMax, std::size_t{std::thread::hardware_concurrency()}});
  std::vector<Status> results(tasks);
  std::vector<std::exception_ptr> thrown(tasks);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    while (!failed) {
      const std::size_t task = next.fetch_add(1);
      if (task >= tasks) return;
      try {
        results[task] = run(task);
      } catch (...) {  // no thread may end by it
        thrown[task] = std::current_exception();
      }
      if (!results[task].ok() || thrown[task] != nullptr) failed = true;
    }
  };
  std::vector<std::thread> others;
  const auto start = [&] {
    try {
      others.emplace_back(work);
      return true;
    } catch (const std::system_error&) {
      return false;  // the system gives no more threads: those that run do all tasks
    }
  };
  while (others.size() + 1 < threads_wanted && start()) {
  }
  work();
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& exception : thrown) {
    if (exception != nullptr) std::rethrow_exception(exception);
  }
  const auto first = std::find_if(results.begin(), results.end(),
                                  [](const Status& status) { return !status.ok(); });
  return first == results.end() ? Status::Ok() : *first;
}

}  // namespace topicdb
