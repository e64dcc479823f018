// Notice of streams as they come to be.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/types/iterator.h"
#include "topicdb/status.h"

namespace topicdb {

class StreamWatchImpl;

// Tells of every stream that may hold topics of a filter, once each: when its first message was
// committed. A new generation has streams of its own. Made by Database::WatchStreams. Thread-safe;
// keeps no lock while it waits. Closing the database ends it.
class StreamWatch {
 public:
  explicit StreamWatch(std::shared_ptr<StreamWatchImpl> impl);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // Streams that it has not told of, by slab and number; what was committed to them by then can be
  // read. None if none comes before `timeout` has passed; absent: waits for ever. kClosed,
  // kInterrupted.
  Result<std::vector<Stream>> Next(std::optional<std::chrono::microseconds> timeout,
                                   const InterruptCheck& interrupted = nullptr);
  // May be repeated. Ends a call of Next that waits.
  void Close();

 private:
  std::shared_ptr<StreamWatchImpl> impl_;
};

}  // namespace topicdb
