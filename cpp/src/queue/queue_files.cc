#include "queue/queue_files.h"

#include <algorithm>
#include <cctype>

#include "base/file/files.h"

namespace topicdb {

namespace {
constexpr std::string_view kCursorExtension = ".cursor";
constexpr std::size_t kCursorNameMax = 64;

bool HasNativeFiles(const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), "QUEUE") != names.end();
}

// Returns whether the directory is a queue of replayq's format. Such a queue has no segments after
// it was drained.
bool HasReplayqFiles(const std::string& directory, const std::vector<std::string>& names) {
  const bool segments = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return ReplayqSegmentFormat().NumberOf(name).has_value();
  });
  return segments || IsReplayqWithoutSegments(directory, names);
}
}  // namespace

Status CheckCursorName(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (!name.empty() && name.size() <= kCursorNameMax && name[0] != '.' &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return Status::Ok();
  }
  return InvalidArgument(
      "a cursor's name has 1 to 64 letters, digits, '_', '-' and '.', and does "
      "not begin with '.'; got '" +
      name + "'");
}

std::optional<std::string> CursorOfFile(const std::string& file_name) {
  if (!file_name.ends_with(kCursorExtension)) return std::nullopt;
  std::string name = file_name.substr(0, file_name.size() - kCursorExtension.size());
  return CheckCursorName(name).ok() ? std::optional(std::move(name)) : std::nullopt;
}

Result<std::unique_ptr<QueueFiles>> QueueFiles::Open(const std::string& directory,
                                                     std::optional<QueueFormat> format,
                                                     QueueMode mode) {
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  const bool native = HasNativeFiles(names);
  const bool replayq = !native && HasReplayqFiles(directory, names);
  if (native && format == QueueFormat::kReplayq) {
    return InvalidArgument(directory + " is a queue of format=\"topicdb\", not \"replayq\"");
  }
  if (replayq && format == QueueFormat::kTopicdb) {
    return InvalidArgument(directory + " is a queue of format=\"replayq\", not \"topicdb\"");
  }
  const bool wanted = replayq || format == QueueFormat::kReplayq;
  if (wanted && mode != QueueMode::kDisk) {
    return InvalidArgument(directory + " is of format=\"replayq\", which takes mode=\"disk\" only");
  }
  return wanted ? OpenReplayqFiles(directory) : OpenNativeFiles(directory);
}

Result<QueueFilesInfo> ReadQueueFiles(const std::string& directory) {
  if (!Exists(directory)) return NotFound(directory + " does not exist");
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  QueueFilesInfo info;
  const bool segments = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return NativeSegmentFormat().NumberOf(name).has_value();
  });
  if (HasNativeFiles(names) || segments) {
    TOPICDB_RETURN_IF_ERROR(ReadNativeFiles(directory, &info));
    return info;
  }
  if (!HasReplayqFiles(directory, names)) return Corruption(directory + " is no queue");
  info.format = QueueFormat::kReplayq;
  TOPICDB_RETURN_IF_ERROR(ReadReplayqFiles(directory, &info));
  return info;
}

}  // namespace topicdb
