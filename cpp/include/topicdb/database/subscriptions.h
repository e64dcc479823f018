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
  // With `partial`, Subscribe, CheckLog and PlacesAt leave out the shards that are missing.
  // Otherwise they return kMissingShard if one is missing that may have messages of the filters.
  Subscriptions(std::shared_ptr<DatabaseImpl> impl, bool partial);
  ~Subscriptions();
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // Returns a subscription to the messages that match any of the filters. Returns kInvalidArgument
  // for a window of 0, and if `from` names a shard that does not exist. Returns kNotFound if a
  // generation in which an iterator stands was merged (keep_last). If it is merged later, before
  // the subscription has passed what the iterators had seen, Subscription::Next returns that.
  // Returns kSchema if an iterator has messages to give in a generation without a commit log
  // (layout skipstream). Subscription::Next returns it, and names the generation, if the next
  // messages may be in such a one: everything that was committed before it was given.
  Result<std::unique_ptr<Subscription>> Subscribe(const std::vector<Filter>& filters,
                                                  const SubscribeFrom& from,
                                                  const SubscribeWindow& window) const;
  // Checks whether somebody who begins to read the log like this gets what is wanted for now.
  // Returns kSchema as Database::NewTail does. Whoever begins anew asks this first; those that go
  // on where they were find out when they read.
  Status CheckLog(const std::vector<Filter>& filters, const SubscribeFrom& from) const;
  // The `timestamp_min` of PlacesAt that stands for the end of what is stored.
  static constexpr std::int64_t kBehindAll = std::numeric_limits<std::int64_t>::max();
  // Returns for each open shard the place of the first commit that has a message of these filters
  // with a timestamp of at least `timestamp_min`. If a shard has none, or for kBehindAll, returns
  // the place after everything that is stored. Except for kBehindAll, returns kSchema, which names
  // the generation, if such messages may be before that place in a generation without a log.
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
