#include "replication/snapshot/shard_copies.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/file/file_copy.h"
#include "base/file/files.h"

namespace topicdb::replication {

namespace {

constexpr std::string_view kSuffix = ".copy-";

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string CopyOf(const std::string& shard_directory, std::uint64_t index) {
  return shard_directory + std::string(kSuffix) + std::to_string(index);
}

// Makes the link, where there is none.
Status MakeLink(const std::string& shard_directory, const std::vector<std::string>& copies) {
  const std::string first = CopyOf(shard_directory, 0);
  if (IsDirectory(shard_directory)) {  // both have their new names at the same moment
    TOPICDB_RETURN_IF_ERROR(RemoveTree(first));
    TOPICDB_RETURN_IF_ERROR(SetLink(first, NameOf(first)));
    TOPICDB_RETURN_IF_ERROR(Exchange(shard_directory, first));
    return SyncDirectory(DirectoryOf(shard_directory));
  }
  for (const std::string& copy : copies) {
    if (!Exists(copy + "/CURRENT")) continue;
    return Corruption(shard_directory + " is gone, which led to " + copy +
                      " or to another copy: remove all of them, and the replica gets a new one");
  }
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(first));
  return SetLink(shard_directory, NameOf(first));
}

Status InstallAs(const std::string& directory, const std::string& shard_directory,
                 const std::string& copy) {
  TOPICDB_RETURN_IF_ERROR(Rename(directory, copy));
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(copy)));
  return SetLink(shard_directory, NameOf(copy));
}

}  // namespace

Status PrepareCopies(const std::string& shard_directory) {
  const std::string parent = DirectoryOf(shard_directory);
  const std::string prefix = NameOf(shard_directory) + std::string(kSuffix);
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(parent));
  std::vector<std::string> copies;
  for (const std::string& name : names) {
    if (name.starts_with(prefix)) copies.push_back(parent + "/" + name);
  }
  if (FollowLink(shard_directory) == shard_directory) {
    TOPICDB_RETURN_IF_ERROR(MakeLink(shard_directory, copies));
  }
  TOPICDB_RETURN_IF_ERROR(RemoveTree(shard_directory + ".link"));  // of a crash in SetLink
  const std::string current = FollowLink(shard_directory);
  for (const std::string& copy : copies) {
    if (copy != current) TOPICDB_RETURN_IF_ERROR(RemoveTree(copy));
  }
  return Status::Ok();
}

Status InstallSnapshot(const std::string& directory, const std::string& shard_directory,
                       std::uint64_t index) {
  const std::string copy = CopyOf(shard_directory, index);
  if (FollowLink(shard_directory) == copy) {
    return Corruption(shard_directory + " has the snapshot of entry " + std::to_string(index) +
                      " already");
  }
  TOPICDB_RETURN_IF_ERROR(RemoveTree(copy));
  return InstallAs(directory, shard_directory, copy);
}

std::string RefillDirectory(const std::string& shard_directory) {
  return shard_directory + ".refill";
}

Status InstallRefill(const std::string& directory, const std::string& shard_directory,
                     std::uint64_t index) {
  for (int number = 1;; ++number) {
    const std::string copy = CopyOf(shard_directory, index) + "." + std::to_string(number);
    if (!Exists(copy)) return InstallAs(directory, shard_directory, copy);
  }
}

Status CheckCopy(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(path));
  const bool has_tables = std::any_of(
      names.begin(), names.end(), [](const std::string& name) { return name.ends_with(".sst"); });
  if (!has_tables || Exists(path + "/CURRENT")) return Status::Ok();
  return Corruption(path + " has tables, and no file CURRENT, which says what they are");
}

}  // namespace topicdb::replication
