// Collects the newest message of each topic while readers go through slab after slab.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "topicdb/types/numbers.h"

namespace topicdb {

// Orders the messages that a shard has of one topic: the newest has the greatest rank. A later
// commit has a greater serial, in whichever slab of its shard it is.
struct MessageRank {
  std::int64_t timestamp = 0;
  Serial serial;
  std::uint32_t index = 0;
  auto operator<=>(const MessageRank&) const = default;
};

// Keeps a copy of the newest message of each topic that was offered. The source of a scan for the
// newest messages owns it, and passes it to the readers of all slabs. Not thread-safe.
//
// Several shards may have messages of one topic, and their serials say nothing of each other. Of
// equal timestamps, the message in the shard with the greatest number counts as the newest, so that
// the answer is the same whatever else is stored.
class LastMessages {
 public:
  // The number of a topic. Topics are counted from 0, in the order in which they were first
  // offered.
  using Number = std::uint32_t;
  // The newest message of one topic.
  struct Entry {
    std::string_view topic;
    std::string_view value;
    MessageRank rank;
    std::uint32_t shard = 0;
  };
  // Timestamp and serial of a message, or a bound of them.
  using Bound = std::pair<std::int64_t, Serial>;

  // Says in which shard the messages are that are offered from now on. It is 0 before that.
  void EnterShard(std::uint32_t shard) { shard_ = shard; }

  // Takes the message unless a newer one of its topic was offered before. Returns the number of the
  // topic.
  Number Offer(std::string_view topic, const MessageRank& rank, std::string_view value);
  // Takes the message, which is one of the topic with this number, unless a newer one of the topic
  // was offered before. REQUIRES: number < size()
  void Offer(Number number, const MessageRank& rank, std::string_view value);
  // Returns the number of the topic, or nothing if no message of it was offered.
  std::optional<Number> Find(std::string_view topic) const;

  // Returns the number of topics.
  std::size_t size() const { return entries_.size(); }
  // Returns the newest message of a topic. It is valid until the next call of Offer.
  // REQUIRES: number < size()
  const Entry& entry(Number number) const { return entries_[number]; }
  // Returns timestamp and serial of the newest message of a topic, as they compare with those of
  // messages in the entered shard: if the message is in another shard, its serial is replaced by
  // one that is greater, or less, than all. REQUIRES: number < size()
  Bound BoundOf(Number number) const;
  // Returns the numbers of all topics, sorted by the bytes of the topics.
  std::vector<Number> ByTopic() const;

 private:
  // Returns memory that lives as long as the object.
  char* Allocate(std::size_t size);
  // Returns a copy of the bytes in that memory.
  std::string_view Copy(std::string_view bytes);
  // Returns the slot that has the topic, or the free slot that the topic would take.
  std::size_t SlotOf(std::string_view topic, std::uint64_t hash) const;
  // Doubles the hash table, and puts all topics into it again.
  void Grow();

  std::uint32_t shard_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> hashes_;    // of topics, by number
  std::vector<std::size_t> capacities_;  // of values, by number
  std::vector<Number> slots_;            // hash table of topics: number + 1; 0: free
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;  // free bytes of the last chunk
  std::size_t left_ = 0;
};

}  // namespace topicdb
