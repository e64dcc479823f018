#include "store/catalog/found_database.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/file/files.h"
#include "store/catalog/retention_file.h"

namespace topicdb {

namespace {

constexpr std::size_t kDescriptorBytesMax = std::size_t{64} << 20;

Result<FoundDatabase> Load(const std::string& path) {
  const std::string file = DescriptorPath(path);
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kDescriptorBytesMax));
  TOPICDB_ASSIGN_OR_RETURN(Descriptor descriptor, DecodeDescriptor(bytes, file));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, LoadRetention(path, descriptor.schema.retention));
  descriptor.schema.retention = rules.classes();
  return FoundDatabase{std::move(descriptor), std::move(rules)};
}

Status DropFault(const std::string& path) {
  return Corruption("the drop of the database " + path +
                    " was cut short, or is under way: topicdb.drop finishes it");
}

}  // namespace

std::string DescriptorPath(const std::string& path) { return path + "/TOPICDB"; }
std::string CreationMarkerPath(const std::string& path) { return path + "/CREATING"; }
std::string CreationLockPath(const std::string& path) { return path + "/CREATING.lock"; }
std::string DropMarkerPath(const std::string& path) { return path + "/DROPPING"; }

Status CheckCreatable(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
  for (const std::string& name : names) {
    if (name == "CREATING") return Status::Ok();
    if (name == "DROPPING") return DropFault(path);
    // The last one is left by whoever has opened a database at the moment at which it was dropped.
    if (name != "CREATING.lock" && name != "CREATING.tmp" && name != "handles.lock") {
      return Corruption(path + " is no TopicDB database: it has no file TOPICDB, but '" + name +
                        "'; choose an empty directory");
    }
  }
  return Status::Ok();
}

Result<FoundDatabase> FindDatabase(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgument("path: expected a path without NUL characters, got '" +
                           path.substr(0, path.find('\0')) + "'");
  }
  const bool exists = Exists(path);
  if (exists && !IsDirectory(path)) {
    return Corruption(path + " is a file; a TopicDB database is a directory");
  }
  if (Exists(DescriptorPath(path))) return Load(path);
  if (Exists(DropMarkerPath(path))) return DropFault(path);
  if (exists) {
    const Status creatable = CheckCreatable(path);
    // Another process may have made the database since the look above.
    if (!creatable.ok() && Exists(DescriptorPath(path))) return Load(path);
    TOPICDB_RETURN_IF_ERROR(creatable);
  }
  return NotFound("there is no database at " + path + " (mode='r' does not create one)");
}

}  // namespace topicdb
