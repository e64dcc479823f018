// What is on its way to one subscriber, and how much of it may be.
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
  std::size_t begin = 0;  // these, from here on
  CommitPlace to;         // behind the last one there is nothing else for it before this place
  bool is_live = false;
};

// Thread-safe. Lock rule: mutex_ is taken last, behind that of the hub; `ready` is called with it.
class Subscriber {
 public:
  Subscriber(const SubscribeWindow& window, SubscribeFrom::Places places)
      : window_(window), places_(std::move(places)) {}

  // For the hub. Takes as many of the first rows as there is room for; how many. If not all:
  // nothing fits any more until the hub is told by one of the calls below.
  std::size_t Offer(const Offered& offered) TOPICDB_EXCLUDES(mutex_);
  // Something is missing behind what was offered.
  void Lose(Loss loss) TOPICDB_EXCLUDES(mutex_);
  // Nothing comes any more; once what waits is taken, Next gives the error.
  void Fail(const Status& status) TOPICDB_EXCLUDES(mutex_);

  // For the consumer; see Subscription.
  Result<std::optional<Delivered>> Next(std::optional<std::chrono::microseconds> timeout,
                                        const InterruptCheck& interrupted, std::size_t rows_max)
      TOPICDB_EXCLUDES(mutex_);
  // These give whether the hub has to be told that there is room again.
  Result<bool> Acknowledge(std::uint64_t seqno) TOPICDB_EXCLUDES(mutex_);
  bool Resume() TOPICDB_EXCLUDES(mutex_);
  void Pause() TOPICDB_EXCLUDES(mutex_);
  // As far as it is known here: kLive if nothing speaks against it. `waiting`, if it is not null:
  // shards of which something waits for Next.
  SubscriptionInfo Info(std::set<std::uint32_t>* waiting = nullptr) const TOPICDB_EXCLUDES(mutex_);
  void OnReady(std::function<void()> ready) TOPICDB_EXCLUDES(mutex_);
  void Close() TOPICDB_EXCLUDES(mutex_);
  bool closed() const TOPICDB_EXCLUDES(mutex_);

 private:
  struct Waiting {
    Offered offered;
    std::size_t end = 0;  // of the rows
    std::uint64_t bytes = 0;
    std::uint64_t seqno = 0;  // of the last message

    CommitPlace Behind() const {
      return end < offered.rows->size() ? offered.rows->place(end) : offered.to;
    }
  };
  struct Lost {
    Loss loss;
    std::uint64_t after = 0;  // seqno of the message before it
  };
  struct Unacknowledged {
    std::uint64_t seqno;  // of the last message
    std::uint64_t bytes;
  };
  // What Next gives. REQUIRES: there is something
  Delivered TakeLoss() TOPICDB_REQUIRES(mutex_);
  bool HasLoss() const TOPICDB_REQUIRES(mutex_) {
    return !losses_.empty() && losses_.front().after <= delivered_;
  }
  // The first part of what waits. REQUIRES: there is something
  Waiting Take(std::size_t rows_max) TOPICDB_REQUIRES(mutex_);
  // How many of the rows there is room for, and their bytes.
  Waiting Fit(const Offered& offered) const TOPICDB_REQUIRES(mutex_);
  bool HasRoomAgain() const TOPICDB_REQUIRES(mutex_);
  // Whether Next gives something, or an error, or that it is closed.
  bool IsReady() const TOPICDB_REQUIRES(mutex_);
  void TellReady() TOPICDB_REQUIRES(mutex_);
  SubscriptionState State() const TOPICDB_REQUIRES(mutex_);
  // If it is full and has room again, it is full no more.
  bool Reopen() TOPICDB_REQUIRES(mutex_);

  const SubscribeWindow window_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Waiting> waiting_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t waiting_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::deque<Lost> losses_ TOPICDB_GUARDED_BY(mutex_);                    // that Next has not given
  std::uint64_t lost_ TOPICDB_GUARDED_BY(mutex_) = 0;                     // messages
  std::deque<Unacknowledged> unacknowledged_ TOPICDB_GUARDED_BY(mutex_);  // what waits, too
  std::uint64_t unacknowledged_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t offered_ TOPICDB_GUARDED_BY(mutex_) = 0;  // seqno of the last message in waiting_
  std::uint64_t delivered_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t acknowledged_ TOPICDB_GUARDED_BY(mutex_) = 0;
  SubscribeFrom::Places places_ TOPICDB_GUARDED_BY(mutex_);  // up to which Next has given all
  bool is_full_ TOPICDB_GUARDED_BY(mutex_) = false;          // Offer did not take all
  bool is_paused_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool is_closed_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status status_ TOPICDB_GUARDED_BY(mutex_);
  std::function<void()> ready_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
