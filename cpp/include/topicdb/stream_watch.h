// Tells a reader of new streams as they come.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"

namespace topicdb {

class StreamWatchImpl;

// Tells of every stream that may hold topics of a filter, once each, when the first message of the
// stream was committed. A new generation has streams of its own. Database::WatchStreams makes it,
// and the caller owns it. Thread-safe; it holds no lock while it waits. Closing the database ends
// it.
class StreamWatch {
 public:
  explicit StreamWatch(std::shared_ptr<StreamWatchImpl> impl);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // Returns the streams that it has not told of yet, by slab and number. What was committed to them
  // by then can be read. Waits for at most `timeout`, or forever if that is absent, and returns
  // none if none came. Returns kClosed or kInterrupted.
  Result<std::vector<Stream>> Next(std::optional<std::chrono::microseconds> timeout,
                                   const InterruptCheck& interrupted = nullptr);
  // Ends a call of Next that waits. May be repeated.
  void Close();

 private:
  std::shared_ptr<StreamWatchImpl> impl_;
};

}  // namespace topicdb
