#include "store/shard/state/shard_rocks.h"

#include <algorithm>
#include <utility>

#include "rocks/files/object_files.h"
#include "rocks/files/process_threads.h"
#include "rocks/log/log_check.h"
#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "store/slab/family_stock.h"

namespace topicdb {

namespace {

// Opens RocksDB in a directory that is there, with all its column families.
Status OpenFamilies(const ShardEnvironment& environment, const std::string& directory, bool create,
                    ShardRocks* opened) {
  const rocksdb::DBOptions options =
      rocks::MakeDbOptions(environment.resources, environment.read_only);
  std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName};
  const std::string context = "opening " + directory;
  if (!create) {
    const auto use = environment.read_only ? rocks::LogUse::kRead : rocks::LogUse::kWrite;
    TOPICDB_RETURN_IF_ERROR(rocks::CheckLogs(directory, use).WithContext(context));
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(rocksdb::DB::ListColumnFamilies(options, directory, &names), context));
  }
  rocks::Families families;
  for (const std::string& name : names) {
    families.emplace_back(name, rocks::FamilyOptions(environment.resources, FamilyUseOf(name)));
  }
  rocks::FamilyHandles handles;
  const rocksdb::Status status =
      environment.read_only
          ? rocks::OpenForReadOnly(options, directory, families, &handles, &opened->db)
          : rocks::Open(options, directory, families, &handles, &opened->db);
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, context));
  rocks::OrderObjects(opened->db.get(), handles);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    auto owned = std::make_shared<FamilyHandle>(opened->db.get(), handle);
    if (handle->GetName() == rocksdb::kDefaultColumnFamilyName) {
      opened->default_family = std::move(owned);
    } else {
      opened->families[handle->GetName()] = std::move(owned);
    }
  }
  return Status::Ok();
}

}  // namespace

std::string ShardDirectory(const std::string& database_path, std::uint32_t index) {
  std::string number = std::to_string(index);
  number.insert(0, 4 - std::min<std::size_t>(4, number.size()), '0');
  return database_path + "/shards/" + number;
}

Result<std::unique_ptr<FileLock>> LockShard(const ShardEnvironment& environment,
                                            std::uint32_t index) {
  TOPICDB_RETURN_IF_ERROR(rocks::CheckProcessMayWrite());
  Result<std::unique_ptr<FileLock>> lock =
      FileLock::Acquire(ShardDirectory(environment.directory, index) + ".lock");
  if (lock.ok() || lock.status().code() != Code::kLocked) return lock;
  return Locked(lock.status().message() +
                ": one process writes at a time. To read beside it, open with mode='r'; to share "
                "it with other processes, let it, or `topicdb serve`, offer the database to "
                "topicdb.connect");
}

Result<ShardRocks> OpenShardRocks(const ShardEnvironment& environment, std::uint32_t index,
                                  bool create) {
  const std::string directory = FollowLink(ShardDirectory(environment.directory, index));
  ShardRocks opened;
  if (create) {
    TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  } else if (!Exists(directory + "/CURRENT")) {
    return Corruption(environment.NameOfShard(index) + ": " + directory +
                      " or its file CURRENT is missing");
  }
  TOPICDB_RETURN_IF_ERROR(OpenFamilies(environment, directory, create, &opened));
  return opened;
}

}  // namespace topicdb
