// The newest message of each topic, while slab after slab is looked through.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace topicdb {

// Place of a message among those of its topic: the greatest is the newest. A later commit has a
// greater serial in whatever slab of its shard it is.
struct MessageRank {
  std::int64_t timestamp = 0;
  std::uint64_t serial = 0;
  std::uint32_t index = 0;
  auto operator<=>(const MessageRank&) const = default;
};

// Keeps copies. Not thread-safe.
class LastMessages {
 public:
  using Number = std::uint32_t;
  struct Entry {
    std::string_view topic;
    std::string_view value;
    MessageRank rank;
  };

  // Takes the message unless a newer one of its topic was offered. The number of the topic.
  Number Offer(std::string_view topic, const MessageRank& rank, std::string_view value);
  // The same of a topic that has a number. REQUIRES: number < size()
  void Offer(Number number, const MessageRank& rank, std::string_view value);
  // Of a topic of which a message was offered.
  std::optional<Number> Find(std::string_view topic) const;

  std::size_t size() const { return entries_.size(); }
  // Valid until the next offer. REQUIRES: number < size()
  const Entry& entry(Number number) const { return entries_[number]; }
  // All of them, bytewise by topic.
  std::vector<Number> ByTopic() const;

 private:
  // Memory that goes with the object.
  char* Allocate(std::size_t size);
  std::string_view Copy(std::string_view bytes);
  // The slot that has the topic, or that it would take.
  std::size_t SlotOf(std::string_view topic, std::uint64_t hash) const;
  void Grow();

  std::vector<Entry> entries_;
  std::vector<std::uint64_t> hashes_;    // of topics, by number
  std::vector<std::size_t> capacities_;  // of values, by number
  std::vector<Number> slots_;            // number + 1 of a topic near its hash; 0: free
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;  // free bytes of the last chunk
  std::size_t left_ = 0;
};

}  // namespace topicdb
