// A read that is under way.
#pragma once

#include <memory>

#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/read.h"

namespace topicdb {

struct Parcel;
class ScanImpl;

// Gives the messages of one read, over many streams. Database::NewScan makes it, and the caller
// owns it. It sees each shard as it was when the scan was made, with whole commits only.
// Thread-safe; it holds no lock between calls. Closing the database ends it: Next then returns
// kClosed.
class Scan {
 public:
  explicit Scan(std::shared_ptr<ScanImpl> impl);
  ~Scan();
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // Returns the next messages, at least one, or null at the end.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck& interrupted = nullptr);
  // Returns the next messages for another process, at least one, or null at the end: about as many
  // as have `bytes_max` bytes in the form in which they are stored (topicdb/database/parcel.h). The
  // calls of one scan are all Next or all NextParcel.
  Result<std::shared_ptr<const Parcel>> NextParcel(std::size_t bytes_max,
                                                   const InterruptCheck& interrupted = nullptr);
  // Returns the missing shards that it leaves out (Database::Partial).
  const MissingReasons& missing_shards() const;
  // Returns what a scan of slices has read so far. Nothing after Close, and of other scans.
  ReadCounters counters() const;
  // Frees what the scan holds. May be repeated.
  void Close();

 private:
  std::shared_ptr<ScanImpl> impl_;
};

}  // namespace topicdb
