// The commit log of a database: messages in the order in which they were committed.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/read.h"

namespace topicdb {

class TailImpl;

struct TailOptions {
  // Of each shard: commits up to this one are not wanted. Shards that are not named are read from
  // their oldest message on.
  std::map<std::uint32_t, std::uint64_t> after;
  // Of each shard: later commits are not wanted. Once all shards have one and are read so far, Next
  // gives nullptr without waiting.
  std::map<std::uint32_t, std::uint64_t> until;
};

// Gives every message that matches and is stored, and then those that are committed, each once: in
// each shard in commit order, whatever their timestamps, across classes and generations. Made by
// Database::NewTail. Thread-safe; keeps no lock while it waits. Closing the database ends it.
//
// Messages that are deleted, or dropped with their generation, before the tail comes to them are
// left out.
class Tail {
 public:
  explicit Tail(std::shared_ptr<TailImpl> impl);
  ~Tail();
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;

  // The next messages, all of one shard: whole commits, as many as are there until a limit is
  // reached. nullptr if none comes before `timeout` has passed; absent: waits for ever.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            std::optional<std::chrono::microseconds> timeout,
                                            const InterruptCheck& interrupted = nullptr);
  // By shard: every message up to this commit was given by Next. For TailOptions::after.
  std::map<std::uint32_t, std::uint64_t> serials() const;
  // Frees what it holds. May be repeated.
  void Close();

 private:
  std::shared_ptr<TailImpl> impl_;
};

}  // namespace topicdb
