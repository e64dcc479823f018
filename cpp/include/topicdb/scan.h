// A read that is under way.
#pragma once

#include <memory>

#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/types/read.h"
#include "topicdb/status.h"

namespace topicdb {

class ScanImpl;

// A running read over many streams; made by Database::NewScan. It sees each shard as it was when
// the scan was made: whole commits only. Thread-safe; keeps no lock between calls. Closing the
// database ends it: Next then returns kClosed.
class Scan {
 public:
  explicit Scan(std::shared_ptr<ScanImpl> impl);
  ~Scan();
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // The next messages, at least one; nullptr at the end.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck& interrupted = nullptr);
  // Frees what it holds. May be repeated.
  void Close();

 private:
  std::shared_ptr<ScanImpl> impl_;
};

}  // namespace topicdb
