#include "store/care/own_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file/files.h"
#include "rocks/files/file_names.h"
#include "store/job/job_files.h"

namespace topicdb {

namespace {

constexpr std::array<std::string_view, 7> kRootFiles{
    "TOPICDB", "retention", "CREATING", "CREATING.lock", "DROPPING", "jobs.lock", "handles.lock"};
constexpr std::string_view kTemporary = ".tmp";
constexpr std::size_t kShardDigits = 4;  // at least

// The directories of a database. What may be in one depends on which one it is.
enum class Room { kRoot, kShards, kRocks, kJobs, kJob, kQuarantine, kRepair, kControl };

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the number of the shard that this name stands for, or nothing if it stands for none.
std::optional<std::uint32_t> ShardOfName(std::string_view name) {
  std::uint32_t shard = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), shard);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && name.size() >= kShardDigits ? std::optional(shard) : std::nullopt;
}

// Returns whether a repair has given this name to what it has put aside.
bool IsTimeName(std::string_view name) {
  constexpr std::string_view kPattern = "00000000T000000.000000Z";
  return std::equal(name.begin(), name.end(), kPattern.begin(), kPattern.end(),
                    [](char c, char known) { return known == '0' ? IsDigit(c) : c == known; });
}

// Returns whether a file beside the directories of jobs is an intent or an outcome.
bool IsJobFile(std::string_view name) {
  const std::size_t dash = name.find('-');
  const std::string_view time = name.substr(0, dash == std::string_view::npos ? 0 : dash);
  const bool begins_with_time = !time.empty() && std::all_of(time.begin(), time.end(), &IsDigit);
  if (!begins_with_time) return false;
  if (name.ends_with(".intent")) return true;
  const std::size_t mark = name.rfind(".shard-");
  return mark != std::string_view::npos &&
         ShardOfName(name.substr(mark + std::string_view(".shard-").size())).has_value();
}

std::string_view WithoutSuffix(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

// Returns whether a socket at which a replay log takes orders may have this name: a digest of the
// name of the log.
bool IsSocketName(std::string_view name) {
  const std::string_view digest = WithoutSuffix(name, ".sock");
  return name.ends_with(".sock") && digest.size() == 16 &&
         digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns whether TopicDB may have made a file with this name in such a directory.
bool IsOwnFile(Room room, std::string_view name) {
  const std::string_view plain = WithoutSuffix(name, kTemporary);
  switch (room) {
    case Room::kRoot:
      return std::find(kRootFiles.begin(), kRootFiles.end(), plain) != kRootFiles.end();
    case Room::kShards:
      return name.ends_with(".lock") && ShardOfName(WithoutSuffix(name, ".lock")).has_value();
    case Room::kRocks:
      return rocks::IsFileName(name);
    case Room::kJobs:
      return IsJobFile(plain);
    case Room::kJob:
      return plain.ends_with(".staged") || WithoutSuffix(name, ".ingest").ends_with(".pages");
    case Room::kQuarantine:
    case Room::kRepair:
    case Room::kControl:
      return false;
  }
  return false;
}

// Returns which directory of a database this one in `room` is, or nothing if it is none.
std::optional<Room> RoomOf(Room room, const std::string& name) {
  const auto if_own = [](bool is_own, Room found) {
    return is_own ? std::optional(found) : std::nullopt;
  };
  switch (room) {
    case Room::kRoot:
      if (name == "shards") return Room::kShards;
      if (name == "jobs") return Room::kJobs;
      if (name == "control") return Room::kControl;
      return if_own(name == "quarantine", Room::kQuarantine);
    case Room::kShards:
      return if_own(ShardOfName(name).has_value(), Room::kRocks);
    case Room::kRocks:
      return if_own(rocks::IsDirectoryName(name), Room::kRocks);
    case Room::kJobs:
      return if_own(CheckJobName(name).ok(), Room::kJob);
    case Room::kJob:
    case Room::kControl:
      return std::nullopt;
    case Room::kQuarantine:
      return if_own(IsTimeName(name), Room::kRepair);
    case Room::kRepair: {
      std::string_view plain = name;
      for (const char* const suffix : {".new", ".building", ".scratch"}) {
        plain = WithoutSuffix(plain, suffix);
      }
      return if_own(ShardOfName(plain).has_value(), Room::kRocks);
    }
  }
  return std::nullopt;
}

// Makes one list. Not thread-safe.
class Lister {
 public:
  Lister(const std::string& path, const InterruptCheck& interrupted)
      : path_(path), interrupted_(interrupted) {}

  Result<OwnFiles> Run() {
    TOPICDB_RETURN_IF_ERROR(List("", Room::kRoot));
    return std::move(found_);
  }

 private:
  // Adds what is in a directory. `inside` is its relative path, with a slash at its end unless it
  // is empty. The directories of a database are at most four deep.
  Status List(const std::string& inside, Room room) {
    if (interrupted_ && interrupted_()) return Interrupted();
    const std::string directory = path_ + "/" + inside;
    const auto names = ListDirectory(directory);
    if (!names.ok() && room != Room::kRoot && !Exists(directory)) return Status::Ok();
    TOPICDB_RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) TOPICDB_RETURN_IF_ERROR(Add(inside, name, room));
    return Status::Ok();
  }

  Status Add(const std::string& inside, const std::string& name, Room room) {
    const std::string relative = inside + name;
    struct stat info{};
    if (lstat((path_ + "/" + relative).c_str(), &info) != 0) {
      if (errno == ENOENT) return Status::Ok();  // it has gone since
      return ErrnoFault("looking at", path_ + "/" + relative, errno);
    }
    if (S_ISDIR(info.st_mode)) {
      const std::optional<Room> own = RoomOf(room, name);
      if (!own.has_value()) return Foreign(relative);
      if (room == Room::kShards) found_.shards.insert(*ShardOfName(name));
      TOPICDB_RETURN_IF_ERROR(List(relative + "/", *own));
      found_.entries.push_back({relative, true});
      return Status::Ok();
    }
    const bool is_socket = S_ISSOCK(info.st_mode) && room == Room::kControl;
    if (is_socket && IsSocketName(name)) {  // of a replay log that was open when a process ended
      found_.entries.push_back({relative, false});
      return Status::Ok();
    }
    if (!S_ISREG(info.st_mode) || !IsOwnFile(room, name)) return Foreign(relative);
    if (room == Room::kShards) found_.shards.insert(*ShardOfName(WithoutSuffix(name, ".lock")));
    found_.entries.push_back({relative, false});
    ++found_.files;
    found_.bytes += static_cast<std::uint64_t>(info.st_size);
    return Status::Ok();
  }

  Status Foreign(const std::string& relative) const {
    return Corruption(path_ + "/" + relative + " is not TopicDB's: move it away");
  }

  const std::string& path_;
  const InterruptCheck& interrupted_;
  OwnFiles found_;
};

}  // namespace

Result<OwnFiles> ListOwnFiles(const std::string& path, const InterruptCheck& interrupted) {
  return Lister(path, interrupted).Run();
}

}  // namespace topicdb
