#include "rocks/log/log_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file/file.h"
#include "base/file/files.h"
#include "rocks/log/commit_link.h"
#include "rocks/log/log_files.h"
#include "rocks/log/log_reader.h"

namespace topicdb::rocks {

namespace {

// What is known of the records so far: the last link, if one had a link, and whether RocksDB may
// have removed logs before them because it does not need them any more.
struct Before {
  std::optional<CommitLink> link;
  bool may_be_removed = true;
};

// Returns whether no batch is missing between the records so far and one with this link.
bool Follows(const Before& before, const CommitLink& link) {
  if (link.number == 0) return true;  // the first of an opening
  if (!before.link.has_value()) return before.may_be_removed;
  return link.session == before.link->session && link.number == before.link->number + 1;
}

// Where the logs must be cut off, because from there on they are not whole.
struct Cut {
  std::string path;
  std::uint64_t size = 0;
};

Status Damaged(const std::string& path, std::uint64_t offset) {
  return Corruption(path + " is damaged at byte " + std::to_string(offset) +
                    ": a record that was never written so");
}

// Reads a log to its end, and keeps `before` up to date. Returns where the log is not whole, if
// anywhere, or kCorruption.
Result<std::optional<Cut>> Walk(const std::string& path, Before* before) {
  LogReader log(path);
  if (!log.is_open()) return std::optional<Cut>();  // RocksDB has removed it meanwhile
  while (true) {
    const LogStep step = log.Next();
    if (step == LogStep::kEnd) {
      before->may_be_removed = false;  // the logs that are needed have no gap
      return std::optional<Cut>();
    }
    if (step == LogStep::kDamaged) return Damaged(path, log.piece_begin());
    if (step == LogStep::kLost) return std::optional(Cut{path, log.record_begin()});
    const std::optional<CommitLink> link = LinkOf(log.record());
    if (!link.has_value()) continue;  // written by an opening, or by a version without links
    if (!Follows(*before, *link)) return std::optional(Cut{path, log.record_begin()});
    before->link = link;
  }
}

// Returns whether a log is of a later opening than the logs before it. Batches that are written
// while a shard is opened have no links.
bool BeginsAnew(const std::string& path) {
  LogReader log(path);
  bool is_empty = true;
  while (log.Next() == LogStep::kRecord) {
    is_empty = false;
    const std::optional<CommitLink> link = LinkOf(log.record());
    if (link.has_value()) return link->number == 0;
  }
  return !is_empty;
}

// Cuts the file off.
Status Apply(const Cut& cut) {
  const auto file = File::OpenForWriting(cut.path);
  TOPICDB_RETURN_IF_ERROR(file.status());
  TOPICDB_RETURN_IF_ERROR((*file)->Truncate(cut.size));
  return (*file)->Sync();
}

// Returns the error for a reader, which may not cut.
Status NeedsWriter(const Cut& cut) {
  return StorageFault(cut.path + " was cut off at byte " + std::to_string(cut.size) +
                      " by a loss of power: open the database for writing once");
}

// Checks the manifest, and cuts it off if `use` allows that. Returns from which log on RocksDB
// needs them, as far as the manifest says.
Result<std::uint64_t> CheckManifest(const std::string& directory, LogUse use) {
  const std::string path = ManifestOf(directory);
  LogReader manifest(path);
  std::uint64_t needed_from = 0;
  if (!manifest.is_open()) return needed_from;
  while (true) {
    const LogStep step = manifest.Next();
    if (step == LogStep::kEnd) return needed_from;
    if (step == LogStep::kDamaged) return Damaged(path, manifest.piece_begin());
    if (step == LogStep::kLost) {
      const Cut cut{path, manifest.record_begin()};
      TOPICDB_RETURN_IF_ERROR(use == LogUse::kWrite ? Apply(cut) : NeedsWriter(cut));
      return needed_from;
    }
    needed_from = std::max(needed_from, NumbersOf(manifest.record()).logs_needed_from);
  }
}

// Removes the logs behind a cut that the same opening has written. Removes the newest first: after
// an interruption, the next check finds the same cut again.
Status RemoveBehind(const std::string& directory, std::vector<std::string> paths) {
  const auto anew = std::find_if(paths.begin(), paths.end(), BeginsAnew);
  paths.erase(anew, paths.end());
  std::reverse(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    if (unlink(path.c_str()) != 0) return ErrnoFault("removing", path, errno);
    TOPICDB_RETURN_IF_ERROR(SyncDirectory(directory));
  }
  return Status::Ok();
}

}  // namespace

Status CheckLogs(const std::string& directory, LogUse use) {
  // RocksDB removes logs that it does not need any more in any order, so older ones may still be
  // there.
  TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t needed_from, CheckManifest(directory, use));
  TOPICDB_ASSIGN_OR_RETURN(const auto paths, WriteAheadLogs(directory, needed_from));
  Before before;
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    TOPICDB_ASSIGN_OR_RETURN(const std::optional<Cut> cut, Walk(*path, &before));
    if (!cut.has_value()) continue;
    // Meanwhile a writer may need fewer logs, and have removed some. Then begin again.
    TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t needed_now, CheckManifest(directory, use));
    if (needed_now > needed_from) return CheckLogs(directory, use);
    if (use == LogUse::kRead) return NeedsWriter(*cut);
    TOPICDB_RETURN_IF_ERROR(RemoveBehind(directory, {path + 1, paths.end()}));
    TOPICDB_RETURN_IF_ERROR(Apply(*cut));
    return CheckLogs(directory, use);  // checks the logs of later openings
  }
  return Status::Ok();
}

}  // namespace topicdb::rocks
