// Reads the records of a shard that replication needs.
#pragma once

#include <string>

#include <rocksdb/db.h>

#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Reads a record of the default family into `record`, which stays as it is if there is none. `name`
// is that of the shard and `what` that of the record, for messages. Returns kCorruption for a
// malformed record, and kStorage.
template <typename Record>
Status ReadRecord(rocksdb::DB* db, const std::string& name, const std::string& key,
                  const char* what, Record* record) {
  std::string value;
  const rocksdb::Status status = db->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, std::string("reading ") + what + " of " + name));
  if (meta::Decode(value, record)) return Status::Ok();
  return Corruption(name + ": its " + what + " is malformed");
}

}  // namespace topicdb::replication
