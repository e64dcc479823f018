#include "rocks/live_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <limits>

#include <rocksdb/metadata.h>
#include <rocksdb/options.h>

#include "base/file/files.h"
#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

Result<std::unique_ptr<FilesHold>> FilesHold::Take(rocksdb::DB* db) {
  TOPICDB_RETURN_IF_ERROR(FromRocks(db->DisableFileDeletions(), "keeping the files of a shard"));
  return std::unique_ptr<FilesHold>(new FilesHold(db));
}

FilesHold::~FilesHold() { db_->EnableFileDeletions().PermitUncheckedError(); }

Result<std::vector<LiveFile>> ListLiveFiles(rocksdb::DB* db) {
  rocksdb::LiveFilesStorageInfoOptions options;
  options.wal_size_for_flush = std::numeric_limits<std::uint64_t>::max();  // no flush
  std::vector<rocksdb::LiveFileStorageInfo> found;
  TOPICDB_RETURN_IF_ERROR(
      FromRocks(db->GetLiveFilesStorageInfo(options, &found), "listing the files of a shard"));
  std::vector<LiveFile> files;
  files.reserve(found.size());
  for (rocksdb::LiveFileStorageInfo& info : found) {
    LiveFile file;
    file.path = info.directory + "/" + info.relative_filename;
    file.name = std::move(info.relative_filename);
    file.bytes = info.size;
    file.immutable = info.file_type == rocksdb::kTableFile;
    file.content = std::move(info.replacement_contents);
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<LiveFile>> ListClosedFiles(const std::string& directory) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  std::vector<LiveFile> files;
  for (const std::string& name : names) {
    if (name == "LOCK" || name.starts_with("LOG")) continue;
    LiveFile file{directory + "/" + name, name, 0, name.ends_with(".sst"), {}};
    struct stat info{};
    if (stat(file.path.c_str(), &info) != 0) return ErrnoFault("looking at", file.path, errno);
    if (!S_ISREG(info.st_mode)) continue;
    file.bytes = static_cast<std::uint64_t>(info.st_size);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace topicdb::rocks
