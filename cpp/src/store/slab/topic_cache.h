// Remembers topics that were written before, with their class and stream, so that a commit need not
// look for these again. It serves slabs whose layout does not need the words of a topic.
//
// Not thread-safe: it belongs to the holder of a shard's commit mutex. The holder must clear it
// when the shard's slabs change, and when a stream that it names was not committed.
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
    RetentionClassId retention_class;
    StreamId stream;
    TopicMark mark;
  };

  // bytes_max: how much memory the cache may take. When it is full, it forgets everything.
  explicit TopicCache(std::size_t bytes_max);

  static std::uint64_t HashOf(std::string_view topic);
  // These fetch into the processor's cache what Find will read, one step each. Callers run them
  // some messages ahead of Find, which spends most of its time waiting for memory. Each step reads
  // what the step before it has fetched.
  void FetchSlot(std::uint64_t hash) const;
  void FetchTopic(std::uint64_t hash) const;
  void FetchText(std::uint64_t hash) const;
  // Returns the topic, or null if it is not known. Valid until the next call of Add or Clear.
  Topic* Find(std::string_view topic, std::uint64_t hash);
  // Adds a topic and returns it. REQUIRES: Find has just returned null for the topic.
  Topic* Add(std::string_view topic, std::uint64_t hash, RetentionClassId retention_class,
             StreamId stream);
  void Clear();
  // Returns the number, from 0, of a topic that Find or Add has just returned, among known topics.
  std::size_t IndexOf(const Topic& topic) const {
    return static_cast<std::size_t>(&topic - topics_.data());
  }

 private:
  // Returns the first candidate for a hash, or null.
  const Topic* Guess(std::uint64_t hash) const;
  void Insert(std::uint32_t index);
  std::string_view Keep(std::string_view text);

  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::vector<Topic> topics_;
  std::vector<std::uint32_t> table_;  // open addressing, of index + 1; its size is a power of two
  std::vector<std::string> texts_;    // none grows beyond what it has reserved
};

}  // namespace topicdb
