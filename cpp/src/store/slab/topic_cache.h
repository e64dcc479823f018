// Topics that were written before, with what was found out about them: their class and stream need
// not be looked for again. For slabs whose layout does not need the words of a topic.
//
// Not thread-safe: belongs to the holder of a shard's commit mutex. To be cleared when the shard's
// slabs change, and when a stream that it names was not committed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"

namespace topicdb {

class TopicCache {
 public:
  struct Topic {
    std::string_view text;
    std::uint64_t hash = 0;
    std::uint32_t retention_class = 0;
    std::uint32_t stream = 0;
    TopicMark mark;
  };

  // bytes_max: what it may take; when it is full it forgets all.
  explicit TopicCache(std::size_t bytes_max);

  static std::uint64_t HashOf(std::string_view topic);
  // Fetch what Find will read, a step each, some messages ahead of it: it waits for memory most of
  // all, and each step reads what the one before has fetched.
  void FetchSlot(std::uint64_t hash) const;
  void FetchTopic(std::uint64_t hash) const;
  void FetchText(std::uint64_t hash) const;
  // Null if it is not known. Valid until the next call of Add or Clear.
  Topic* Find(std::string_view topic, std::uint64_t hash);
  // REQUIRES: Find has just given null
  Topic* Add(std::string_view topic, std::uint64_t hash, std::uint32_t retention_class,
             std::uint32_t stream);
  void Clear();
  // Number of a topic that Find or Add has just given, among those that are known, from 0.
  std::size_t IndexOf(const Topic& topic) const {
    return static_cast<std::size_t>(&topic - topics_.data());
  }

 private:
  // The first candidate, or null.
  const Topic* Guess(std::uint64_t hash) const;
  void Insert(std::uint32_t index);
  std::string_view Keep(std::string_view text);

  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::vector<Topic> topics_;
  std::vector<std::uint32_t> table_;  // open addressing: index + 1; a power of two
  std::vector<std::string> texts_;    // never grow beyond what they have reserved
};

}  // namespace topicdb
