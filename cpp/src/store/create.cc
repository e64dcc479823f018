#include "store/create.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/files.h"
#include "store/retention_file.h"
#include "store/shard_environment.h"

namespace topicdb {

namespace {

constexpr std::size_t kDescriptorBytesMax = std::size_t{64} << 20;
constexpr std::size_t kCreationBufferBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kLockPause(10);
constexpr std::chrono::seconds kLockPatience(10);

std::string DescriptorPath(const std::string& path) { return path + "/TOPICDB"; }
// There while a database is being made: what lies beside it was never used.
std::string MarkerPath(const std::string& path) { return path + "/CREATING"; }
std::string CreationLockPath(const std::string& path) { return path + "/CREATING.lock"; }

Result<FoundDatabase> Load(const std::string& path) {
  const std::string file = DescriptorPath(path);
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kDescriptorBytesMax));
  TOPICDB_ASSIGN_OR_RETURN(Descriptor descriptor, DecodeDescriptor(bytes, file));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, LoadRetention(path, descriptor.schema.retention));
  descriptor.schema.retention = rules.classes();
  return FoundDatabase{std::move(descriptor), std::move(rules)};
}

// Whether a database may be made in the directory: it is empty, or an earlier try was cut short.
Status CheckCreatable(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
  for (const std::string& name : names) {
    if (name == "CREATING") return Status::Ok();
    if (name != "CREATING.lock" && name != "CREATING.tmp") {
      return Corruption(path + " is no TopicDB database: it has no file TOPICDB, but '" + name +
                        "'; choose an empty directory");
    }
  }
  return Status::Ok();
}

Result<std::unique_ptr<FileLock>> LockCreation(const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
  while (true) {
    auto lock = FileLock::Acquire(CreationLockPath(path));
    const bool busy = !lock.ok() && lock.status().code() == Code::kLocked;
    if (!busy || std::chrono::steady_clock::now() >= deadline) return lock;
    std::this_thread::sleep_for(kLockPause);
  }
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

// What a descriptor has no place for.
Status StoreLimits(const std::string& path, const RetentionRules& rules) {
  const std::vector<RetentionClass> classes = rules.classes();
  const bool have_more_than_ages =
      std::any_of(classes.begin(), classes.end(), [](const RetentionClass& limits) {
        return limits.bytes_max > 0 || limits.rotate_us > 0 || limits.keep_last > 0;
      });
  return have_more_than_ages ? StoreRetention(path, rules) : Status::Ok();
}

Result<FoundDatabase> Create(const std::string& path, const OpenOptions& options) {
  TOPICDB_ASSIGN_OR_RETURN(Descriptor descriptor, MakeDescriptor(options.schema));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, RetentionRules::Make(descriptor.schema.retention));
  FoundDatabase made{std::move(descriptor), std::move(rules)};
  if (!Exists(path)) TOPICDB_RETURN_IF_ERROR(MakeDirectory(path));
  TOPICDB_RETURN_IF_ERROR(CheckCreatable(path));
  {
    TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockCreation(path));
    if (Exists(DescriptorPath(path))) return Load(path);  // another was faster
    TOPICDB_RETURN_IF_ERROR(CheckCreatable(path));
    TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(MarkerPath(path), ""));
    TOPICDB_RETURN_IF_ERROR(CreateShards(path, made));
    TOPICDB_RETURN_IF_ERROR(StoreLimits(path, made.rules));
    TOPICDB_RETURN_IF_ERROR(
        WriteFileAtomically(DescriptorPath(path), EncodeDescriptor(made.descriptor)));
    TOPICDB_RETURN_IF_ERROR(RemoveFile(MarkerPath(path)));
  }
  return made;
}

}  // namespace

Result<FoundDatabase> FindDatabase(const std::string& path) {
  OpenOptions existing;
  existing.read_only = true;
  return FindOrCreateDatabase(path, existing);
}

Result<FoundDatabase> FindOrCreateDatabase(const std::string& path, const OpenOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgument("path: expected a path without NUL characters, got '" +
                           path.substr(0, path.find('\0')) + "'");
  }
  const bool exists = Exists(path);
  if (exists && !IsDirectory(path)) {
    return Corruption(path + " is a file; a TopicDB database is a directory");
  }
  if (Exists(DescriptorPath(path))) {
    TOPICDB_ASSIGN_OR_RETURN(FoundDatabase found, Load(path));
    TOPICDB_RETURN_IF_ERROR(CheckAgreement(options.schema, found.descriptor.schema, path));
    return found;
  }
  if (options.read_only) {
    if (exists) TOPICDB_RETURN_IF_ERROR(CheckCreatable(path));
    return NotFound("there is no database at " + path + " (mode='r' does not create one)");
  }
  TOPICDB_ASSIGN_OR_RETURN(FoundDatabase created, Create(path, options));
  TOPICDB_RETURN_IF_ERROR(CheckAgreement(options.schema, created.descriptor.schema, path));
  return created;
}

}  // namespace topicdb
