// Reading the commit log of one shard.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "store/shard.h"
#include "topicdb/database.h"

namespace topicdb {

// A place in the log of a shard, and the readers that are open there. Not thread-safe. Must be gone
// before the shard closes, or be released.
class LogCursor {
 public:
  // Of messages that match any of the filters: those of commits behind `after`, up to `until`.
  LogCursor(std::vector<Filter> filters, std::uint64_t after, std::uint64_t until)
      : filters_(std::move(filters)), serial_(after), until_(until) {}

  // Appends whole commits, as many as there are until a limit is reached. Each time it has come to
  // the end of what there was, `shard` may be another handle of the same. After an error it is
  // where it was, and what was appended does not count. kCorruption, kInterrupted.
  Status Read(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
              const InterruptCheck& interrupted, Batch* batch);
  // Every message up to this commit was given.
  std::uint64_t serial() const { return serial_; }
  // Frees what it holds; it goes on from where it is.
  void Release();

 private:
  void OpenReaders();
  Status ReadOn(const PageLimits& limits, const InterruptCheck& interrupted, Batch* batch);

  const std::vector<Filter> filters_;
  std::uint64_t serial_;
  const std::uint64_t until_;
  // Readers go before the view, the view before the shard.
  std::shared_ptr<Shard> shard_;
  std::shared_ptr<const ShardView> view_;
  std::vector<std::unique_ptr<LogReader>> readers_;  // empty: all of a view was read
};

}  // namespace topicdb
