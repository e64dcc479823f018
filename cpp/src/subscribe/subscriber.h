// Keeps what is on its way to one subscriber, and limits how much that is.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/thread/mutex.h"
#include "subscribe/log_page.h"
#include "topicdb/subscription.h"

namespace topicdb {

// Messages of one shard for a subscriber.
struct Offered {
  std::uint32_t shard = 0;
  SharedLogRows rows;
  std::size_t begin = 0;  // the first of the rows that is offered
  CommitPlace to;         // after the rows, nothing else is for the subscriber before this place
  bool is_live = false;
};

// Keeps the messages that wait for one subscriber, within its window. The hub and the subscription
// share it. Thread-safe. Lock rule: mutex_ is taken last, after the hub's mutex. `ready` is called
// while mutex_ is held.
class Subscriber {
 public:
  Subscriber(const SubscribeWindow& window, SubscribeFrom::Places places)
      : window_(window), places_(std::move(places)) {}

  // Offer, Lose and Fail are for the hub. Offer takes as many of the first rows as there is room
  // for, and returns how many. If it did not take all, it takes nothing more until Acknowledge or
  // Resume returns true.
  std::size_t Offer(const Offered& offered) TOPICDB_EXCLUDES(mutex_);
  // Notes that messages are lost behind what was offered.
  void Lose(Loss loss) TOPICDB_EXCLUDES(mutex_);
  // Ends the delivery. Next returns the error once what waits is taken.
  void Fail(const Status& status) TOPICDB_EXCLUDES(mutex_);

  // The methods from here on are for the consumer; see Subscription.
  Result<std::optional<Delivered>> Next(std::optional<std::chrono::microseconds> timeout,
                                        const InterruptCheck& interrupted, std::size_t rows_max)
      TOPICDB_EXCLUDES(mutex_);
  // Acknowledge and Resume return whether the caller must tell the hub that there is room again.
  Result<bool> Acknowledge(std::uint64_t seqno) TOPICDB_EXCLUDES(mutex_);
  bool Resume() TOPICDB_EXCLUDES(mutex_);
  void Pause() TOPICDB_EXCLUDES(mutex_);
  // Returns what the subscriber knows itself. It cannot tell kLive from kCatchingUp, and says kLive
  // for both. Adds the shards of which something waits for Next to `waiting`, if that is not null.
  SubscriptionInfo Info(std::set<std::uint32_t>* waiting = nullptr) const TOPICDB_EXCLUDES(mutex_);
  void OnReady(std::function<void()> ready) TOPICDB_EXCLUDES(mutex_);
  void Close() TOPICDB_EXCLUDES(mutex_);
  bool closed() const TOPICDB_EXCLUDES(mutex_);

 private:
  // Offered messages that there was room for and that Next has not given yet.
  struct Waiting {
    Offered offered;
    std::size_t end = 0;  // after the last of the rows that wait
    std::uint64_t bytes = 0;
    std::uint64_t seqno = 0;  // of the last message

    // Returns the place behind these messages, as Delivered::next.
    CommitPlace Behind() const {
      return end < offered.rows->size() ? offered.rows->place(end) : offered.to;
    }
  };
  // A loss, and where it stands among the messages.
  struct Lost {
    Loss loss;
    std::uint64_t after = 0;  // seqno of the message before it
  };
  // Messages that were offered together and are not all acknowledged.
  struct Unacknowledged {
    std::uint64_t seqno;  // of the last message
    std::uint64_t bytes;
  };
  // Takes out the first loss, for Next. REQUIRES: there is one
  Delivered TakeLoss() TOPICDB_REQUIRES(mutex_);
  // Returns whether a loss comes before all messages that wait.
  bool HasLoss() const TOPICDB_REQUIRES(mutex_) {
    return !losses_.empty() && losses_.front().after <= delivered_;
  }
  // Takes out the first part of what waits, at most `rows_max` rows. REQUIRES: something waits
  Waiting Take(std::size_t rows_max) TOPICDB_REQUIRES(mutex_);
  // Returns the offered rows that there is room for, and their bytes.
  Waiting Fit(const Offered& offered) const TOPICDB_REQUIRES(mutex_);
  // Returns whether enough of the window is free for a full one to open again.
  bool HasRoomAgain() const TOPICDB_REQUIRES(mutex_);
  // Returns whether Next has messages, a loss or an error to give, or tells that this is closed.
  bool IsReady() const TOPICDB_REQUIRES(mutex_);
  // Wakes calls of Next, and calls `ready`.
  void TellReady() TOPICDB_REQUIRES(mutex_);
  // Returns the state for Info.
  SubscriptionState State() const TOPICDB_REQUIRES(mutex_);
  // Ends the state of being full if there is room again. Returns whether it did.
  bool Reopen() TOPICDB_REQUIRES(mutex_);

  const SubscribeWindow window_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Waiting> waiting_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t waiting_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::deque<Lost> losses_ TOPICDB_GUARDED_BY(mutex_);                    // that Next has not given
  std::uint64_t lost_ TOPICDB_GUARDED_BY(mutex_) = 0;                     // messages, in all losses
  std::deque<Unacknowledged> unacknowledged_ TOPICDB_GUARDED_BY(mutex_);  // with what waits
  std::uint64_t unacknowledged_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t offered_ TOPICDB_GUARDED_BY(mutex_) = 0;  // seqno of the last message in waiting_
  std::uint64_t delivered_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t acknowledged_ TOPICDB_GUARDED_BY(mutex_) = 0;
  SubscribeFrom::Places places_ TOPICDB_GUARDED_BY(mutex_);  // Next has given all before them
  bool is_full_ TOPICDB_GUARDED_BY(mutex_) = false;          // Offer did not take all
  bool is_paused_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool is_closed_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status status_ TOPICDB_GUARDED_BY(mutex_);
  std::function<void()> ready_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
