// What subscribers want to have, and what of several of them is read at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/cursor/log_cursor.h"
#include "subscribe/filter_tree.h"
#include "topicdb/topic.h"

namespace topicdb {

// What a subscriber wants; see SubscribeFrom.
struct Wanted {
  std::vector<Filter> filters;  // messages that match any of them
  std::int64_t start_us = 0;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;

  // Says the same of two if and only if they are the same.
  std::string Key() const;
};

// Those who want the same share one.
struct Interest : Wanted {
  Interest(std::uint64_t number_of_it, const Wanted& wanted)
      : Wanted(wanted), number(number_of_it) {}

  const std::uint64_t number;  // unique in a hub

  bool Wants(std::string_view topic) const {
    return IsInPart(topic) && std::any_of(filters.begin(), filters.end(),
                                          [&](const Filter& one) { return one.Matches(topic); });
  }
  bool IsInPart(std::string_view topic) const;
  // Whether it wants all topics that the filter matches.
  bool Covers(const Filter& filter) const {
    return std::any_of(filters.begin(), filters.end(),
                       [&](const Filter& one) { return one.Covers(filter); });
  }
};
using SharedInterest = std::shared_ptr<const Interest>;

// Interests that are read together. Immutable.
class InterestSet {
 public:
  // Each once; they are put in the order of their numbers.
  explicit InterestSet(std::vector<SharedInterest> interests);

  const std::vector<SharedInterest>& interests() const { return interests_; }
  bool Has(const Interest& interest) const;
  // What finds messages of all of them; and maybe of others, if there are many.
  const std::vector<Filter>& filters() const { return filters_; }
  std::int64_t start_us() const { return start_us_; }
  // Whether what it reads is all that there is of the interest.
  bool Covers(const Interest& interest) const;
  // Whether every topic that it reads is wanted by the interest.
  bool WantsAllTopics(const Interest& interest) const;
  // Whether it reads the same as the other.
  bool ReadsLike(const InterestSet& other) const;
  // Every topic that it reads is wanted by each of them.
  bool is_uniform() const { return is_uniform_; }
  // Their places in interests(), each once. REQUIRES: !is_uniform()
  std::vector<std::uint32_t> WhoWants(std::string_view topic) const;

 private:
  std::vector<SharedInterest> interests_;
  std::vector<Filter> filters_;
  std::int64_t start_us_;
  bool is_uniform_ = true;
  FilterTree tree_;
};

}  // namespace topicdb
