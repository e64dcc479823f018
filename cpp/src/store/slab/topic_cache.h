// Remembers topics that were written before, with their class and stream, so that a commit need not
// look for these again. It serves slabs whose layout does not need the words of a topic.
//
// The ShardState and a StagedWriter own one each. Not thread-safe: that of a shard belongs to the
// holder of the commit mutex. The holder must clear it when the shard's slabs change, and when a
// stream that it names was not committed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"

namespace topicdb {

// Maps topics to their class and stream, within a bound of memory.
class TopicCache {
 public:
  // A topic that the cache knows.
  struct Topic {
    std::string_view text;
    std::uint64_t hash = 0;
    RetentionClassId retention_class;
    StreamId stream;
    TopicMark mark;
  };

  // The cache may take at most `bytes_max` bytes of memory. When it is full, it forgets everything.
  explicit TopicCache(std::size_t bytes_max);

  static std::uint64_t HashOf(std::string_view topic);
  // These fetch into the processor's cache what Find will read, one step each. Callers run them
  // some messages ahead of Find, which spends most of its time waiting for memory. Each step reads
  // what the step before it has fetched.
  void FetchSlot(std::uint64_t hash) const;
  void FetchTopic(std::uint64_t hash) const;
  void FetchText(std::uint64_t hash) const;
  // Returns the topic, or null if it is not known. The pointer is valid until the next call of Add
  // or Clear.
  Topic* Find(std::string_view topic, std::uint64_t hash);
  // Adds a topic and returns it. REQUIRES (Add): Find has just returned null for the topic
  Topic* Add(std::string_view topic, std::uint64_t hash, RetentionClassId retention_class,
             StreamId stream);
  // Forgets everything.
  void Clear();
  // Returns the number of a topic that Find or Add has just returned. Known topics are numbered
  // from 0, in the order in which they were added.
  std::size_t IndexOf(const Topic& topic) const {
    return static_cast<std::size_t>(&topic - topics_.data());
  }

 private:
  // Returns the first candidate for a hash, or null.
  const Topic* Guess(std::uint64_t hash) const;
  // Puts a topic of topics_ in the table.
  void Insert(std::uint32_t index);
  // Copies a text to texts_, and returns the copy.
  std::string_view Keep(std::string_view text);

  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::vector<Topic> topics_;
  std::vector<std::uint32_t> table_;  // open addressing, of index + 1; its size is a power of two
  std::vector<std::string> texts_;    // none grows beyond what it has reserved
};

}  // namespace topicdb
