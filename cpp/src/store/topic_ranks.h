// The last messages of each topic.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace topicdb {

// Where a message is among those of its topic: later ones are greater. As in last values.
struct TopicPlace {
  std::int64_t timestamp = 0;
  std::uint64_t serial = 0;
  std::uint32_t index = 0;
  auto operator<=>(const TopicPlace&) const = default;
};

// Takes 24 bytes for each message that counts, and about 150 and the topic for each topic. Not
// thread-safe.
class TopicRanks {
 public:
  // keep_last: messages of each topic; at least 1. overwrites: a message replaces one of the same
  // topic and timestamp, so they count as one.
  TopicRanks(std::uint32_t keep_last, bool overwrites)
      : keep_last_(keep_last), overwrites_(overwrites) {}

  void Add(std::string_view topic, const TopicPlace& place);
  // Of one that was added: whether it is among the last.
  bool IsLast(std::string_view topic, const TopicPlace& place) const;
  bool empty() const { return topics_.empty(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view topic) const {
      return std::hash<std::string_view>()(topic);
    }
  };
  const std::size_t keep_last_;
  const bool overwrites_;
  std::unordered_map<std::string, std::vector<TopicPlace>, Hash, std::equal_to<>>
      topics_;  // sorted
};

}  // namespace topicdb
