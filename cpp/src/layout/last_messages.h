// The newest message of each topic, while slab after slab is looked through.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace topicdb {

// Place of a message among those of its topic: the greatest is the newest. A later commit has a
// greater serial in whatever slab of its shard it is.
struct MessageRank {
  std::int64_t timestamp = 0;
  std::uint64_t serial = 0;
  std::uint32_t index = 0;
  auto operator<=>(const MessageRank&) const = default;
};

// Not thread-safe.
class LastMessages {
 public:
  using Number = std::uint32_t;
  struct Entry {
    std::string topic;
    MessageRank rank;
    std::string value;
  };

  // Takes the message unless a newer one of its topic was offered. The number of the topic.
  Number Offer(std::string_view topic, const MessageRank& rank, std::string_view value);
  // Of a topic of which a message was offered.
  std::optional<Number> Find(std::string_view topic) const;

  std::size_t size() const { return entries_.size(); }
  // REQUIRES: number < size()
  const Entry& entry(Number number) const { return entries_[number]; }
  // All of them, bytewise by topic.
  std::vector<Number> ByTopic() const;

 private:
  struct Hash {
    std::size_t operator()(std::string_view topic) const { return Hash64(topic); }
  };

  std::deque<Entry> entries_;  // stay where they are: the keys below are their topics
  std::unordered_map<std::string_view, Number, Hash> numbers_;
};

}  // namespace topicdb
