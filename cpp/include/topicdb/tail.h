// The commit log of a database: messages in the order in which they were committed.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/read.h"

namespace topicdb {

class TailImpl;

// Which part of the commit log a tail reads.
struct TailOptions {
  // For each shard: the tail skips commits up to this one. It reads shards that are not named from
  // their oldest message on.
  std::map<std::uint32_t, Serial> after;
  // For each shard: the tail stops after this commit. Once every shard has such a commit and is
  // read up to it, Next returns null without waiting.
  std::map<std::uint32_t, Serial> until;
  // The tail leaves out what these iterators have given or passed over in their streams, and older
  // generations of their classes as far as their filters go.
  std::vector<Iterator> given;
};

// Gives every stored message that matches, and then those that are committed, each once. In each
// shard they come in the order of commits, whatever their timestamps, across classes and
// generations. Database::NewTail makes it, and the caller owns it. Thread-safe; it holds no lock
// while it waits. Closing the database ends it.
//
// It leaves out messages that are deleted, or dropped with their generation, before it comes to
// them. It reads the shards that are open when it begins. Of a missing shard that comes back to the
// handle, another tail reads the messages, which continues with the serials of this one.
class Tail {
 public:
  explicit Tail(std::shared_ptr<TailImpl> impl);
  ~Tail();
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;

  // Returns the next messages, all of one shard. They are whole commits, as many as there are until
  // a limit is reached. Waits for at most `timeout`, or forever if that is absent, and returns null
  // if no message came. Returns kSchema, which names the generation, if the next messages may be in
  // a generation without a commit log: everything that was committed before it was given.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            std::optional<std::chrono::microseconds> timeout,
                                            const InterruptCheck& interrupted = nullptr);
  // Returns for each shard the last commit up to which Next has given every message. Another tail
  // continues there with these numbers as TailOptions::after.
  std::map<std::uint32_t, Serial> serials() const;
  // Returns the shards that it reads.
  const std::set<std::uint32_t>& shards() const;
  // Returns the missing shards that it leaves out (Database::Partial), as they were when it began.
  const MissingReasons& missing_shards() const;
  // Frees what the tail holds. Later calls of Next return kClosed. May be repeated.
  void Close();

 private:
  std::shared_ptr<TailImpl> impl_;
};

}  // namespace topicdb
