#include "base/file/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace topicdb {

std::uint64_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::uint64_t RaiseDescriptorLimit(std::uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t raised = std::min<rlim_t>(wanted, limit.rlim_max);
  if (limit.rlim_cur >= raised) return limit.rlim_cur;
  limit.rlim_cur = raised;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? raised : DescriptorLimit();
}

std::string DescriptorHint(int error_number) {
  if (error_number == EMFILE) {
    return " (this process may have " + std::to_string(DescriptorLimit()) +
           " files open at once: raise that with 'ulimit -n', or have it open fewer files, sockets "
           "or databases)";
  }
  if (error_number == ENFILE) {
    return " (this machine has as many files open as it can: see fs.file-max)";
  }
  return {};
}

std::string DescriptorHint(const std::string& message) {
  for (const int error_number : {EMFILE, ENFILE}) {
    if (message.find(std::generic_category().message(error_number)) != std::string::npos) {
      return DescriptorHint(error_number);
    }
  }
  return {};
}

}  // namespace topicdb
