#include "rocks/files/file_state.h"

#include <sys/stat.h>

#include "base/file/files.h"
#include "base/file/system_calls.h"

namespace topicdb::rocks {

namespace {

constexpr std::size_t kCurrentBytesMax = 4'096;

// Returns name and size of the manifest in use, which only grows; empty if it cannot be read.
std::string ManifestState(const std::string& directory) {
  const Result<std::string> current = ReadFile(directory + "/CURRENT", kCurrentBytesMax);
  if (!current.ok()) return {};
  const std::string name = current->substr(0, current->find('\n'));
  struct stat info{};
  if (stat((directory + "/" + name).c_str(), &info) != 0) return {};
  return name + " " + std::to_string(info.st_size) + "\n";
}

}  // namespace

std::string StateOf(const std::string& directory, StateFiles files) {
  std::string state = ManifestState(directory);
  if (files == StateFiles::kManifest || state.empty()) return state;
  const auto names = ListDirectory(directory);
  if (!names.ok()) return {};
  for (const std::string& name : *names) {
    struct stat info{};
    if (!name.ends_with(".log") || stat((directory + "/" + name).c_str(), &info) != 0) continue;
    const timespec changed = ChangeTime(info);
    state += name + " " + std::to_string(info.st_size) + " " + std::to_string(changed.tv_sec) +
             "." + std::to_string(changed.tv_nsec) + "\n";
  }
  return state;
}

}  // namespace topicdb::rocks
