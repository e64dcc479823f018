// What subscribers want to have, and what of several of them is read at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "store/log_cursor.h"
#include "subscribe/filter_tree.h"
#include "topicdb/topic.h"

namespace topicdb {

// Messages that match any of the filters, with timestamps from `start_us` on. Those who want the
// same share one.
struct Interest {
  std::uint64_t number;  // unique in a hub
  std::vector<Filter> filters;
  std::int64_t start_us;

  bool Wants(std::string_view topic) const {
    return std::any_of(filters.begin(), filters.end(),
                       [&](const Filter& filter) { return filter.Matches(topic); });
  }
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
