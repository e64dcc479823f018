// Looks at the batches of a shard, as far as replication must know them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include <rocksdb/write_batch.h>

#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb::replication {

// What replication must know of a batch.
struct BatchContent {
  std::set<std::uint32_t> families;  // those that it names, without the default one
  std::optional<Serial> serial;      // the last commit, if the batch has the record that says so
};

// Returns what the batch has. Returns kCorruption if it is malformed, and if it has anything but
// puts, deletes, and deletes of ranges: only these may be applied twice.
Result<BatchContent> ScanBatch(const rocksdb::WriteBatch& batch);

// Adds everything that `from` has to `to`. `handle_of` returns the handle of a family by its
// number in `from`; it is not asked for the default family. REQUIRES: ScanBatch(from) returned Ok
Status CopyBatch(const rocksdb::WriteBatch& from,
                 const std::function<rocksdb::ColumnFamilyHandle*(std::uint32_t)>& handle_of,
                 rocksdb::WriteBatch* to);

}  // namespace topicdb::replication
