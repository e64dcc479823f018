// Messages as they are committed, and those that were before, handed to who wants them.
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

namespace topicdb {

class SubscriptionImpl;

// Where a subscription begins.
struct SubscribeFrom {
  // Of each shard: messages before these places are not wanted. A shard that is not named is read
  // from its oldest message on.
  using Places = std::map<std::uint32_t, CommitPlace>;
  // Absent: with what is committed from now on.
  std::optional<Places> places = Places{};
  std::int64_t start_us = 0;  // only messages with such a timestamp or a later one
  // Only topics of this part of all, by a hash of the topic: XXH3 (64 bits) modulo `parts`.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  // Of each shard: what was dropped up to this commit is no loss (or was counted already). A shard
  // that is not named: if it has a place, nothing; else what was dropped until now.
  std::map<std::uint32_t, std::uint64_t> counted;
};

// What may be under way to a subscriber: delivered, and not acknowledged.
struct SubscribeWindow {
  std::uint64_t messages = 1'000;
  std::uint64_t bytes = std::uint64_t{8} << 20;  // of topics and values; one message may be larger
};

// Messages of one shard, and where they stand in its log.
struct PlacedMessages {
  std::shared_ptr<const Batch> batch;  // with serials
  std::vector<std::uint32_t> rows;     // of each message: its place in its commit
};

// A generation that was dropped before its messages were given.
struct Loss {
  std::uint32_t shard = 0;
  std::string retention_class;
  std::uint32_t generation = 0;
  std::uint64_t serial = 0;    // of the commit that dropped it
  std::uint64_t messages = 0;  // that were not given: so many at most
};

struct Delivered {
  // If it is there, there are no messages: those behind `next` are not given.
  std::optional<Loss> loss;
  std::shared_ptr<const Batch> batch;  // at least one message; with serials
  std::vector<std::uint32_t> rows;     // of each message: its place in its commit
  std::uint64_t seqno = 0;             // of its last message; the first of a subscription has 1
  std::uint32_t shard = 0;             // of all of them
  // Every message of the shard before this place was delivered.
  CommitPlace next;
  bool is_live = false;  // or it was read from history
};

enum class SubscriptionState : std::uint8_t {
  kCatchingUp,  // reads what is stored, of some shard at least
  kLive,        // has everything that is committed
  kFull,        // the window is: nothing comes before something is acknowledged
  kPaused,
  kFailed,  // by the error that Next gives
  kClosed,
};

struct SubscriptionInfo {
  SubscriptionState state = SubscriptionState::kCatchingUp;
  std::uint64_t delivered = 0;                  // messages that Next has given: seqno of the last
  std::uint64_t acknowledged = 0;               // seqno
  std::uint64_t waiting = 0;                    // messages that Next would give
  std::uint64_t waiting_bytes = 0;              // of these
  std::map<std::uint32_t, CommitPlace> places;  // of each shard: up to there Next has given them
  std::uint64_t lost = 0;                       // messages: the sum of all losses
};

// How much was read and shared among all subscriptions of a database.
struct SubscriptionStats {
  std::uint64_t subscriptions = 0;
  std::uint64_t live_reads = 0;      // of what was just committed
  std::uint64_t catch_up_reads = 0;  // of history
  std::uint64_t shared_reads = 0;    // deliveries that needed no read of their own
  std::uint64_t page_bytes = 0;      // of what was read lately and is kept
};

// Gives the messages of a filter: first those that are stored, then those that are committed, each
// once and in each shard in the order of commits, whatever their timestamps. Made by
// Database::Subscribe. Thread-safe. Closing the database ends it.
//
// Messages that are deleted before it comes to them are left out. So are those that are dropped
// with their generation; Next tells of that in the place of what is missing.
class Subscription {
 public:
  explicit Subscription(std::unique_ptr<SubscriptionImpl> impl);
  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // The next messages, all of one shard and at most `rows_max`, or a loss; absent if none come
  // before `timeout` has passed (absent: waits for ever), or it is closed. kInterrupted; kClosed:
  // the database is closed; kCorruption.
  Result<std::optional<Delivered>> Next(
      std::optional<std::chrono::microseconds> timeout, const InterruptCheck& interrupted = nullptr,
      std::size_t rows_max = std::numeric_limits<std::size_t>::max());
  // Everything up to the message `seqno` is done with, and makes room in the window. While that is
  // full nothing is delivered; then, once an eighth of it is free. kInvalidArgument: it was not
  // delivered, or is acknowledged already.
  Status Acknowledge(std::uint64_t seqno);
  // Next gives nothing until Resume. May be repeated.
  void Pause();
  void Resume();
  SubscriptionInfo Info() const;
  // Messages of its filters that stand at these places of a shard, whatever was delivered; those
  // that are gone are left out. REQUIRES: the places are in order
  Result<PlacedMessages> Find(std::uint32_t shard, const std::vector<CommitPlace>& places,
                              const InterruptCheck& interrupted = nullptr) const;
  // `ready` is called from other threads whenever Next has something to give, or an error, or is
  // closed, after it had nothing; it must not block, throw or call this. Replaces an earlier one;
  // if something is there already, it is called at once.
  void OnReady(std::function<void()> ready);
  // Ends calls of Next. May be repeated.
  void Close();
  bool closed() const;

 private:
  std::unique_ptr<SubscriptionImpl> impl_;
};

}  // namespace topicdb
