// Makes the subscriptions of a database.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

class DatabaseImpl;
struct SubscribeFrom;
struct SubscribeWindow;
class Subscription;
struct SubscriptionStats;

// Makes the subscriptions of a database, and finds the places where readers of its commit log
// begin. The Database owns it and gives it out (Database::subscriptions). Thread-safe. Every method
// returns kClosed after Database::Close, and kForked in a forked child.
class Subscriptions {
 public:
  // With `partial`, Subscribe and PlacesAt leave out the shards that are missing. Otherwise they
  // return kMissingShard if one is missing that may have messages of the filters.
  Subscriptions(std::shared_ptr<DatabaseImpl> impl, bool partial);
  ~Subscriptions();
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // Returns a subscription to the messages that match any of the filters. Returns kInvalidArgument
  // as Database::NewTail does, and for a window of 0. Returns kNotFound if a generation in which an
  // iterator stands was merged (keep_last). If it is merged later, before the subscription has
  // passed what the iterators had seen, Subscription::Next returns that.
  Result<std::unique_ptr<Subscription>> Subscribe(const std::vector<Filter>& filters,
                                                  const SubscribeFrom& from,
                                                  const SubscribeWindow& window) const;
  // The `timestamp_min` of PlacesAt that stands for the end of what is stored.
  static constexpr std::int64_t kBehindAll = std::numeric_limits<std::int64_t>::max();
  // Returns for each open shard the place of the first commit that has a message of these filters
  // with a timestamp of at least `timestamp_min`. If a shard has none, or for kBehindAll, returns
  // the place after everything that is stored.
  Result<std::map<std::uint32_t, CommitPlace>> PlacesAt(const std::vector<Filter>& filters,
                                                        std::int64_t timestamp_min,
                                                        const InterruptCheck& interrupted) const;
  // Returns how many messages of a shard a reader has missed, at most, because commits after
  // `counted` dropped their generation. The reader wants messages of these filters from
  // `timestamp_min` on, and was given everything before `from`.
  Result<std::uint64_t> CountDropped(std::uint32_t shard, const std::vector<Filter>& filters,
                                     std::int64_t timestamp_min, const CommitPlace& from,
                                     Serial counted) const;
  // Returns what all subscriptions have read.
  Result<SubscriptionStats> GetStats() const;

 private:
  const std::shared_ptr<DatabaseImpl> impl_;
  const bool partial_;
};

}  // namespace topicdb
