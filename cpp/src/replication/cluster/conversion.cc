#include "replication/cluster/conversion.h"

#include "base/file/files.h"
#include "store/care/shard_attachment.h"
#include "store/catalog/found_database.h"
#include "topicdb/database.h"

namespace topicdb::replication {

namespace {

// Those who found a cluster have applied its first entry, which is of the first term.
constexpr meta::Applied kFirstEntry{1, 1, 0, 0};

std::string MarkerPath(const std::string& path) { return path + "/site/converting"; }

// Completes what a crash has left, and moves everything to files.
Status Settle(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const auto database, Database::Open(path, OpenOptions()));
  TOPICDB_RETURN_IF_ERROR(database->Flush());
  return database->Close();
}

}  // namespace

bool IsBeingConverted(const std::string& path) { return Exists(MarkerPath(path)); }

Status ConvertDatabase(const std::string& path) {
  if (Exists(path + "/site/identity")) return Status::Ok();
  if (!IsBeingConverted(path)) {
    TOPICDB_RETURN_IF_ERROR(FindDatabase(path).status());  // else the next line would make one
    TOPICDB_RETURN_IF_ERROR(Settle(path));
    TOPICDB_RETURN_IF_ERROR(MakeDirectory(path + "/site"));
    TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(MarkerPath(path), ""));
  }
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindDatabase(path));
  const auto environment = MakeShardEnvironment(path, found, OpenOptions());
  for (std::uint32_t shard = 0; shard < found.descriptor.schema.shards; ++shard) {
    TOPICDB_RETURN_IF_ERROR(AttachShard(*environment, shard, kFirstEntry));
  }
  return Status::Ok();
}

Status FinishConversion(const std::string& path) {
  return IsBeingConverted(path) ? RemoveFile(MarkerPath(path)) : Status::Ok();
}

}  // namespace topicdb::replication
