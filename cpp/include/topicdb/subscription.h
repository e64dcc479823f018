// Messages that are pushed to a subscriber: first those that are stored, then those that are
// committed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/read.h"

namespace topicdb {

class SubscriptionImpl;

// Where a subscription begins.
struct SubscribeFrom {
  // For each shard: the place where the subscription begins. It reads shards that are not named
  // from their oldest message on.
  using Places = std::map<std::uint32_t, CommitPlace>;
  // Absent: the subscription begins with what is committed from now on.
  std::optional<Places> places = Places{};
  std::int64_t timestamp_min = 0;  // only messages with this timestamp or a later one
  // Only the topics of this part out of `parts`, by a hash of the topic: XXH3 (64 bits) modulo
  // `parts`.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  // For each shard: drops of generations up to this commit are no loss, or were counted already.
  // For a shard that is not named, all drops count if `places` names it with a place behind its
  // beginning. Otherwise only those from now on count.
  std::map<std::uint32_t, Serial> counted;
  // The subscription leaves out what these iterators have given or passed over in their streams,
  // and older generations of their classes as far as their filters go. What was dropped since they
  // were read last, and they had not given, is a loss.
  std::vector<Iterator> given;
};

// The most that may be on its way to a subscriber: delivered, and not acknowledged.
struct SubscribeWindow {
  std::uint64_t messages = 1'000;
  std::uint64_t bytes = std::uint64_t{8} << 20;  // of topics and values; one message may be larger
};

// Messages of one shard, with their numbers in their commits.
struct PlacedMessages {
  std::shared_ptr<const Batch> batch;  // with serials
  std::vector<std::uint32_t> rows;     // the number of each message in its commit
};

// What Next gives: messages of one shard, or a loss.
struct Delivered {
  // If this is there, nothing else was delivered: the messages after `next` are lost.
  std::optional<Loss> loss;
  std::shared_ptr<const Batch> batch;  // at least one message unless there is a loss; with serials
  std::vector<std::uint32_t> rows;     // the number of each message in its commit
  std::uint64_t seqno = 0;             // of the last message; the first of a subscription has 1
  std::uint32_t shard = 0;             // of all these messages
  // The subscription has delivered every message of the shard before this place.
  CommitPlace next;
  bool is_live = false;  // false: read from history
};

// What a subscription is doing.
enum class SubscriptionState : std::uint8_t {
  kCatchingUp,  // reads what is stored, in at least one shard
  kLive,        // has read everything that is committed
  kFull,        // the window is full: nothing comes before an Acknowledge
  kPaused,
  kFailed,  // Next returns the error
  kClosed,
};

// The state of a subscription at one moment.
struct SubscriptionInfo {
  SubscriptionState state = SubscriptionState::kCatchingUp;
  std::uint64_t delivered = 0;                  // seqno of the last message that Next gave
  std::uint64_t acknowledged = 0;               // seqno
  std::uint64_t waiting = 0;                    // messages that Next would give
  std::uint64_t waiting_bytes = 0;              // of these messages
  std::map<std::uint32_t, CommitPlace> places;  // for each shard: Next gave all before it
  std::uint64_t lost = 0;                       // messages, summed over all losses
};

// What all subscriptions of a database have read and shared.
struct SubscriptionStats {
  std::uint64_t subscriptions = 0;
  std::uint64_t live_reads = 0;      // of what was just committed
  std::uint64_t catch_up_reads = 0;  // of history
  std::uint64_t shared_reads = 0;    // deliveries that needed no read of their own
  std::uint64_t page_bytes = 0;      // of what was read lately and is kept
};

// Delivers the messages of its filters: first those that are stored, then those that are committed.
// Each comes once, and in each shard in the order of commits, whatever their timestamps.
// Database::Subscribe makes it, and the caller owns it. Thread-safe. Closing the database ends it.
//
// It leaves out messages that are deleted before it comes to them. It also leaves out messages that
// are dropped with their generation, but Next tells of the loss in their place. It reads the shards
// that are open when it begins, as a Tail does.
class Subscription {
 public:
  explicit Subscription(std::unique_ptr<SubscriptionImpl> impl);
  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Returns the next messages, all of one shard and at most `rows_max`, or a loss. Waits for at
  // most `timeout`, or forever if that is absent. Returns nothing if none came or if this is
  // closed. Returns kInterrupted, kCorruption, or kClosed if the database is closed.
  Result<std::optional<Delivered>> Next(
      std::optional<std::chrono::microseconds> timeout, const InterruptCheck& interrupted = nullptr,
      std::size_t rows_max = std::numeric_limits<std::size_t>::max());
  // Says that everything up to the message `seqno` is done, which makes room in the window. While
  // the window is full, nothing is delivered. Delivery continues once an eighth of it is free.
  // Returns kInvalidArgument if the message was not delivered or is acknowledged already.
  Status Acknowledge(std::uint64_t seqno);
  // Makes Next give nothing until Resume. May be repeated.
  void Pause();
  void Resume();
  // Returns the state and the counters of this subscription.
  SubscriptionInfo Info() const;
  // Returns the missing shards that it leaves out (Database::Partial), as they were when it began.
  const MissingReasons& missing_shards() const;
  // Returns the messages of its filters at these places of a shard, whatever was delivered. Leaves
  // out messages that are gone. REQUIRES: the places are in order
  Result<PlacedMessages> Find(std::uint32_t shard, const std::vector<CommitPlace>& places,
                              const InterruptCheck& interrupted = nullptr) const;
  // Sets a function that other threads call when Next had nothing and now has messages, a loss or
  // an error, or when this was closed. `ready` must not block, throw or call this. Replaces an
  // earlier function. If Next has something already, calls `ready` at once.
  void OnReady(std::function<void()> ready);
  // Ends calls of Next. May be repeated.
  void Close();
  bool closed() const;

 private:
  std::unique_ptr<SubscriptionImpl> impl_;
};

}  // namespace topicdb
