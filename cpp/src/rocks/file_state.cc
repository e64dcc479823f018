#include "rocks/file_state.h"

#include <sys/stat.h>

#include "base/files.h"

namespace topicdb::rocks {

std::string StateOf(const std::string& directory, StateFiles files) {
  const auto names = ListDirectory(directory);
  if (!names.ok()) return {};
  std::string state;
  for (const std::string& name : *names) {
    const bool is_log = files == StateFiles::kLogsToo && name.ends_with(".log");
    if (name != "CURRENT" && !name.starts_with("MANIFEST") && !is_log) continue;
    struct stat info{};
    if (stat((directory + "/" + name).c_str(), &info) != 0) continue;  // gone by now
    state += name + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) +
             "." + std::to_string(info.st_mtim.tv_nsec) + "\n";
  }
  return state;
}

}  // namespace topicdb::rocks
