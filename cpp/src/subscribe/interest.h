// What subscribers want, and what is read for several of them at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/cursor/log_cursor.h"
#include "store/read/log_gaps.h"
#include "subscribe/filter_tree.h"
#include "topicdb/topic.h"

namespace topicdb {

// What a subscriber wants; see SubscribeFrom.
struct Wanted {
  std::vector<Filter> filters;  // messages that match any of them
  std::int64_t timestamp_min = 0;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;

  // Returns a text that two have in common if and only if they want the same.
  std::string Key() const;
  // Returns the same for LogGaps, whatever the part.
  std::vector<LogWant> LogWants() const { return WantsOf(filters, Times()); }
  // Returns the range of the timestamps that are wanted.
  TimeRange Times() const {
    TimeRange range;
    if (timestamp_min > 0) range.start = timestamp_min;
    return range;
  }
};

// Something wanted, with a number. Subscribers that want the same share one.
struct Interest : Wanted {
  Interest(std::uint64_t number_of_it, const Wanted& wanted)
      : Wanted(wanted), number(number_of_it) {}

  const std::uint64_t number;  // unique in a hub

  // Returns whether the topic is wanted, at whatever timestamp.
  bool Wants(std::string_view topic) const {
    return IsInPart(topic) && std::any_of(filters.begin(), filters.end(),
                                          [&](const Filter& one) { return one.Matches(topic); });
  }
  // Returns whether the topic belongs to the part of all topics that is wanted.
  bool IsInPart(std::string_view topic) const;
  // Returns whether the filters of this interest match all topics that `filter` matches.
  bool Covers(const Filter& filter) const {
    return std::any_of(filters.begin(), filters.end(),
                       [&](const Filter& one) { return one.Covers(filter); });
  }
};
using SharedInterest = std::shared_ptr<const Interest>;

// Interests that are read together. Pages, kept cursors and the track of a shard share it.
// Immutable, so thread-safe.
class InterestSet {
 public:
  // Sorts the interests by number. REQUIRES: each is there once
  explicit InterestSet(std::vector<SharedInterest> interests);

  const std::vector<SharedInterest>& interests() const { return interests_; }
  // Returns whether the interest is one of the set.
  bool Has(const Interest& interest) const;
  // Returns filters that match what any of the interests wants. If there are many of them, the
  // result may match more than that.
  const std::vector<Filter>& filters() const { return filters_; }
  // Returns the smallest timestamp_min of the interests.
  std::int64_t timestamp_min() const { return timestamp_min_; }
  // Returns whether a read for this set finds all that the interest wants.
  bool Covers(const Interest& interest) const;
  // Returns whether the interest wants every topic that a read for this set finds.
  bool WantsAllTopics(const Interest& interest) const;
  // Returns what the interests want, each for itself.
  std::vector<LogWant> LogWants() const;
  // Returns whether a read for this set finds the same as one for `other`.
  bool ReadsLike(const InterestSet& other) const;
  // Returns whether each of the interests wants every topic that a read finds.
  bool is_uniform() const { return is_uniform_; }
  // Returns which interests want the topic, as indexes into interests(), each once. REQUIRES:
  // !is_uniform()
  std::vector<std::uint32_t> WhoWants(std::string_view topic) const;

 private:
  std::vector<SharedInterest> interests_;
  std::vector<Filter> filters_;
  std::int64_t timestamp_min_;
  bool is_uniform_ = true;
  FilterTree tree_;
};

}  // namespace topicdb
