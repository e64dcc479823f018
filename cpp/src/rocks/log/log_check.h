// Checks RocksDB's logs before RocksDB reads them.
//
// When the power fails, what was written to a log since its last fsync may be there in part: some
// of its sectors in any order, and more of a newer log than of the one before it. RocksDB accepts
// an incomplete record at the end of a log. It takes anything else for damage, or does not notice
// that commits are missing before others. So CheckLogs cuts that end off. It tells it from damage
// by what a flipped bit cannot cause: a sector of zeros in a record, or a gap in the numbers of
// commits, which are in the link at the end of each commit.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <rocksdb/db.h>

#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb::rocks {

enum class LogUse { kRead, kWrite };

// Checks the current manifest and the write-ahead logs in `directory`. Returns kCorruption, with
// file and byte, if one is damaged. If an unsynced end is not whole, kWrite cuts it off, and kRead
// returns kStorage: whoever opens the shard for writing mends it. Ignores files that vanish
// meanwhile.
Status CheckLogs(const std::string& directory, LogUse use);

// Writes to a RocksDB, and numbers the writes to its log, from its opening on. Whoever has the
// RocksDB open for writing owns it. Thread-safe: threads write one after the other, because RocksDB
// would make one record of concurrent writes.
class LogChain {
 public:
  LogChain();

  // Adds the link to `batch`, and writes it. Everything that writes to the log must use this.
  rocksdb::Status Write(rocksdb::DB* db, const rocksdb::WriteOptions& options,
                        rocksdb::WriteBatch* batch) TOPICDB_EXCLUDES(mutex_);
  // Returns how many bytes were written since the opening, to the log or not.
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::uint32_t session_;
  std::atomic<std::uint64_t> bytes_{0};
  Mutex mutex_;
  std::uint64_t next_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace topicdb::rocks
