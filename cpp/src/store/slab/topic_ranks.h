// Tells which messages are among the last ones of their topics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "layout/last_messages.h"

namespace topicdb {

// Collects the ranks of messages and keeps the last ones of each topic. It takes 24 bytes for each
// message that it keeps, and about 150 bytes and the topic for each topic. A merge of slabs owns
// it. Not thread-safe.
class TopicRanks {
 public:
  // Keeps at most `keep_last` messages of each topic, at least 1. With `overwrites`, a message
  // replaces one with the same topic and timestamp, so both count as one.
  TopicRanks(std::uint32_t keep_last, bool overwrites)
      : keep_last_(keep_last), overwrites_(overwrites) {}

  void Add(std::string_view topic, const MessageRank& place);
  // Returns whether a message that was added is among the last ones of its topic.
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
      topics_;  // the ranks of a topic are sorted
};

}  // namespace topicdb
