// The last messages of each topic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "layout/last_messages.h"

namespace topicdb {

// Takes 24 bytes for each message that counts, and about 150 and the topic for each topic. Not
// thread-safe.
class TopicRanks {
 public:
  // keep_last: messages of each topic; at least 1. overwrites: a message replaces one of the same
  // topic and timestamp, so they count as one.
  TopicRanks(std::uint32_t keep_last, bool overwrites)
      : keep_last_(keep_last), overwrites_(overwrites) {}

  void Add(std::string_view topic, const MessageRank& place);
  // Of one that was added: whether it is among the last.
  bool IsLast(std::string_view topic, const MessageRank& place) const;
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
  std::unordered_map<std::string, std::vector<MessageRank>, Hash, std::equal_to<>>
      topics_;  // sorted
};

}  // namespace topicdb
