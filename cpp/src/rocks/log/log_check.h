// A look at RocksDB's logs before RocksDB reads them.
//
// When the power fails, what was written to a log since its last fsync may be there in part: some
// of its sectors, whatever their order, and of a newer log more than of the one before it. RocksDB
// takes an incomplete record at the end of a log; of anything else it says that it is damage, or it
// does not notice that commits are missing before others. So that end is cut off here. It is told
// from damage by what a flipped bit does not do: there is a sector of zeros in a record, or, by the
// links that every commit ends with, a gap in their numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <rocksdb/db.h>

#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb::rocks {

enum class LogUse { kRead, kWrite };

// Damage of the current manifest or of a write-ahead log in `directory` is kCorruption, naming file
// and byte. With kWrite, an unsynced end that is not whole is cut off; with kRead it is kStorage:
// whoever opens the shard for writing mends it. Files that vanish meanwhile are of no interest.
Status CheckLogs(const std::string& directory, LogUse use);

// Writes to a RocksDB, and numbers what goes to its log, from its opening on. Thread-safe: one
// writes after the other, because RocksDB would make one record of what comes together.
class LogChain {
 public:
  LogChain();

  // Adds the link to the batch. All that writes to the log must come this way.
  rocksdb::Status Write(rocksdb::DB* db, const rocksdb::WriteOptions& options,
                        rocksdb::WriteBatch* batch) TOPICDB_EXCLUDES(mutex_);
  // How much was written since it opened, to the log or not.
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::uint32_t session_;
  std::atomic<std::uint64_t> bytes_{0};
  Mutex mutex_;
  std::uint64_t next_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace topicdb::rocks
