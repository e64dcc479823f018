#include "rocks/rocks_compat.h"

#include "base/file/descriptor_limit.h"
#include "rocks/files/process_threads.h"

namespace topicdb::rocks {

namespace {

// RocksDB 11 takes a unique_ptr where earlier ones take a raw out-pointer.
#if ROCKSDB_MAJOR >= 11
template <typename OpenFunction>
rocksdb::Status OpenInto(std::unique_ptr<rocksdb::DB>* db, OpenFunction open) {
  return open(db);
}
#else
template <typename OpenFunction>
rocksdb::Status OpenInto(std::unique_ptr<rocksdb::DB>* db, OpenFunction open) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = open(&raw);
  db->reset(raw);
  return status;
}
#endif

}  // namespace

Status FromRocks(const rocksdb::Status& status, const std::string& context) {
  if (status.ok()) return Status::Ok();
  std::string message = context + ": " + status.ToString();
  message += DescriptorHint(message);
  if (status.IsCorruption()) return Corruption(message);
  // A file that the manifest names and the directory lacks is damage, not a busy disk.
  if (status.IsPathNotFound()) return Corruption(message);
  if (status.IsIOError() && message.find("lock ") != std::string::npos &&
      message.find("LOCK") != std::string::npos) {
    return Locked(message);
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) return InvalidArgument(message);
  return StorageFault(message);
}

rocksdb::Status Open(const rocksdb::DBOptions& options, const std::string& path,
                     const Families& families, FamilyHandles* handles,
                     std::unique_ptr<rocksdb::DB>* db) {
  rocksdb::DBOptions used = options;
  used.listeners.push_back(MarkWriting());
  return OpenInto(db,
                  [&](auto* out) { return rocksdb::DB::Open(used, path, families, handles, out); });
}

rocksdb::Status OpenForReadOnly(const rocksdb::DBOptions& options, const std::string& path,
                                const Families& families, FamilyHandles* handles,
                                std::unique_ptr<rocksdb::DB>* db) {
  return OpenInto(db, [&](auto* out) {
    return rocksdb::DB::OpenForReadOnly(options, path, families, handles, out);
  });
}

std::string Version() {
  return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
         std::to_string(ROCKSDB_PATCH);
}

}  // namespace topicdb::rocks
