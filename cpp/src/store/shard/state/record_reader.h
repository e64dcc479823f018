// Reads records of a shard.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <rocksdb/db.h>

#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"
#include "topicdb/status.h"

namespace topicdb {

// Reads records of the default column family of a shard, as they are now. Whoever loads something
// of a shard makes one. Immutable, and therefore thread-safe.
class RecordReader {
 public:
  // `name` is that of the shard, for messages. `db` must outlive the reader.
  RecordReader(rocksdb::DB* db, std::string name) : db_(db), name_(std::move(name)) {}

  // Returns the error for a shard whose records cannot be right.
  Status Damaged(const std::string& reason) const { return Corruption(name_ + ": " + reason); }

  Result<bool> Has(const std::string& key) const {
    TOPICDB_ASSIGN_OR_RETURN(const auto found, Find(key, "records"));
    return found.has_value();
  }
  // Returns the record with this key, or nothing if there is none. `what` is what it is called.
  Result<std::optional<std::string>> Find(const std::string& key, const char* what) const {
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(status, std::string("reading ") + what + " of " + name_));
    return std::optional(std::move(value));
  }
  // Returns the record with this key. Returns kCorruption if there is none.
  Result<std::string> Get(const std::string& key, const char* what) const {
    TOPICDB_ASSIGN_OR_RETURN(auto found, Find(key, what));
    if (!found.has_value()) return Damaged(std::string("it has no ") + what);
    return std::move(*found);
  }
  // Decodes the record with this key into `record`, which stays as it is if there is none. Returns
  // kCorruption if the record is malformed.
  template <typename Record>
  Status Read(const std::string& key, const char* what, Record* record) const {
    TOPICDB_ASSIGN_OR_RETURN(const auto found, Find(key, what));
    if (!found.has_value() || meta::Decode(*found, record)) return Status::Ok();
    return Damaged(std::string("its ") + what + " is malformed");
  }
  // Calls visit(key, value) for each record whose key has the prefix, until that fails.
  template <typename Visit>
  Status ForEach(const std::string& prefix, const char* what, Visit visit) const {
    const std::unique_ptr<rocksdb::Iterator> records(db_->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      TOPICDB_RETURN_IF_ERROR(
          visit(records->key().ToStringView(), records->value().ToStringView()));
    }
    return rocks::FromRocks(records->status(), std::string("reading ") + what + " of " + name_);
  }

 private:
  rocksdb::DB* const db_;
  const std::string name_;
};

}  // namespace topicdb
