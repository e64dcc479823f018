#include "store/database/create.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/file/files.h"
#include "store/catalog/database_hold.h"
#include "store/catalog/retention_file.h"
#include "store/shard/shard.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

constexpr std::size_t kCreationBufferBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kLockPatience(10);
constexpr int kAttemptsMax = 100;

// Returns kInvalidArgument if a handle cannot open these shards of a database that has `shards` of
// them.
Status CheckOnlyShards(const std::optional<std::vector<std::uint32_t>>& only_shards,
                       std::uint32_t shards) {
  if (!only_shards.has_value()) return Status::Ok();
  if (only_shards->empty()) return InvalidArgument("only_shards: at least one shard is needed");
  std::set<std::uint32_t> seen;
  for (const std::uint32_t index : *only_shards) {
    if (index >= shards) {
      return InvalidArgument("only_shards: there is no shard " + std::to_string(index) +
                             ", the database has " + std::to_string(shards));
    }
    if (!seen.insert(index).second) {
      return InvalidArgument("only_shards: shard " + std::to_string(index) + " is given twice");
    }
  }
  return Status::Ok();
}

Status CreateShards(const std::string& path, const FoundDatabase& made) {
  TOPICDB_RETURN_IF_ERROR(RemoveTree(path + "/shards"));
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(path + "/shards"));
  OpenOptions options;
  options.cache_bytes = kCreationBufferBytes;
  options.write_buffer_bytes = kCreationBufferBytes;
  const auto environment = MakeShardEnvironment(path, made, options);
  for (std::uint32_t index = 0; index < made.descriptor.schema.shards; ++index) {
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, Shard::Open(environment, index, /*create=*/true));
    TOPICDB_RETURN_IF_ERROR(shard->Close());
  }
  return SyncDirectory(path + "/shards");
}

// Stores the limits of classes that a descriptor has no place for, in the file `retention`. If
// there are none, removes the file that a creation with other classes may have left when it was cut
// short.
Status StoreLimits(const std::string& path, const RetentionRules& rules) {
  const std::vector<RetentionClass> classes = rules.classes();
  const bool have_more_than_ages =
      std::any_of(classes.begin(), classes.end(), [](const RetentionClass& limits) {
        return limits.bytes_max > 0 || limits.rotation_period > limits.rotation_period.zero() ||
               limits.keep_last > 0 || limits.layout.has_value();
      });
  return have_more_than_ages ? StoreRetention(path, rules) : RemoveRetention(path);
}

// Makes the directory if there is none, and takes the lock with which a database is made in it. If
// a database is dropped there at this moment, makes the directory again. Leaves a directory that
// holds anything else as it is. Returns the errors of CheckCreatable, and kLocked.
Result<std::unique_ptr<FileLock>> LockToCreate(const std::string& path) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (!Exists(path)) TOPICDB_RETURN_IF_ERROR(MakeDirectory(path));
    const Status creatable = CheckCreatable(path);
    if (!creatable.ok() && Exists(path)) return creatable;
    if (!creatable.ok()) continue;
    auto lock = FileLock::AcquireWithin(CreationLockPath(path), kLockPatience);
    const bool is_gone = lock.ok() ? !(*lock)->file().CheckInPlace().ok() : !Exists(path);
    if (!is_gone) return lock;
  }
  return Locked(path + " is being dropped and made again all the time");
}

Result<FoundDatabase> Create(const std::string& path, const OpenOptions& options) {
  TOPICDB_ASSIGN_OR_RETURN(Descriptor descriptor, MakeDescriptor(options.schema));
  TOPICDB_RETURN_IF_ERROR(CheckOnlyShards(options.only_shards, descriptor.schema.shards));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, RetentionRules::Make(descriptor.schema.retention));
  FoundDatabase made{std::move(descriptor), std::move(rules)};
  {
    const auto lock = LockToCreate(path);
    if (Exists(DescriptorPath(path))) return FindDatabase(path);  // another was faster
    TOPICDB_RETURN_IF_ERROR(lock.status());
    TOPICDB_RETURN_IF_ERROR(CheckCreatable(path));
    TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(CreationMarkerPath(path), ""));
    TOPICDB_RETURN_IF_ERROR(CreateShards(path, made));
    TOPICDB_RETURN_IF_ERROR(StoreLimits(path, made.rules));
    TOPICDB_RETURN_IF_ERROR(CreateIfMissing(HandlesLockPath(path)));
    TOPICDB_RETURN_IF_ERROR(
        WriteFileAtomically(DescriptorPath(path), EncodeDescriptor(made.descriptor)));
    TOPICDB_RETURN_IF_ERROR(RemoveFile(CreationMarkerPath(path)));
  }
  return made;
}

// Removes the marker of a creation that was complete but for that. If the database lost its
// descriptor later, the marker would say that the shards were never used.
Status RemoveMarker(const std::string& path) {
  if (!Exists(CreationMarkerPath(path))) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const auto lock,
                           FileLock::AcquireWithin(CreationLockPath(path),
                                                   kLockPatience));  // its maker may still be there
  return Exists(CreationMarkerPath(path)) ? RemoveFile(CreationMarkerPath(path)) : Status::Ok();
}

}  // namespace

Result<FoundDatabase> FindOrCreateDatabase(const std::string& path, const OpenOptions& options) {
  auto found = FindDatabase(path);
  if (!found.ok()) {
    if (found.status().code() != Code::kNotFound || options.read_only) return found;
    found = Create(path, options);
    TOPICDB_RETURN_IF_ERROR(found.status());
  }
  TOPICDB_RETURN_IF_ERROR(CheckAgreement(options.schema, found->descriptor.schema, path));
  TOPICDB_RETURN_IF_ERROR(CheckOnlyShards(options.only_shards, found->descriptor.schema.shards));
  if (!options.read_only) TOPICDB_RETURN_IF_ERROR(RemoveMarker(path));
  return found;
}

Status MakeWithoutShards(const std::string& path, const FoundDatabase& database) {
  if (Exists(DescriptorPath(path))) {
    TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindDatabase(path));
    if (found.descriptor.id == database.descriptor.id) {
      const bool is_old = found.rules.version() < database.rules.version();
      return is_old ? StoreRetention(path, database.rules) : Status::Ok();
    }
    return InvalidArgument(path + " has another database: choose another directory");
  }
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(path + "/shards"));
  TOPICDB_RETURN_IF_ERROR(StoreLimits(path, database.rules));
  TOPICDB_RETURN_IF_ERROR(CreateIfMissing(HandlesLockPath(path)));
  return WriteFileAtomically(DescriptorPath(path), EncodeDescriptor(database.descriptor));
}

}  // namespace topicdb
