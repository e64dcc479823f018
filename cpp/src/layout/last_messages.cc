#include "layout/last_messages.h"

#include <algorithm>
#include <numeric>

namespace topicdb {

LastMessages::Number LastMessages::Offer(std::string_view topic, const MessageRank& rank,
                                         std::string_view value) {
  if (const auto known = numbers_.find(topic); known != numbers_.end()) {
    Entry& entry = entries_[known->second];
    if (rank > entry.rank) {
      entry.rank = rank;
      entry.value = value;
    }
    return known->second;
  }
  const auto number = static_cast<Number>(entries_.size());
  entries_.push_back({std::string(topic), rank, std::string(value)});
  numbers_.emplace(entries_.back().topic, number);
  return number;
}

std::optional<LastMessages::Number> LastMessages::Find(std::string_view topic) const {
  const auto known = numbers_.find(topic);
  return known == numbers_.end() ? std::nullopt : std::optional(known->second);
}

std::vector<LastMessages::Number> LastMessages::ByTopic() const {
  std::vector<Number> numbers(entries_.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto by_topic = [&](Number a, Number b) { return entries_[a].topic < entries_[b].topic; };
  // Blocks give them in the order of their topics; of one stream nothing is left to do.
  if (!std::is_sorted(numbers.begin(), numbers.end(), by_topic)) {
    std::sort(numbers.begin(), numbers.end(), by_topic);
  }
  return numbers;
}

}  // namespace topicdb
