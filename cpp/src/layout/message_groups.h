// Counts messages in groups, for a summary of many slabs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "topicdb/status.h"
#include "topicdb/types/summary.h"

namespace topicdb {

// Keeps the count of each group of messages. A summary owns it, and all readers of the summary add
// to it, one after the other. Not thread-safe.
class MessageGroups {
 public:
  // The count of one group.
  struct Count {
    std::uint64_t messages = 0;
    std::int64_t first_time = 0;
    std::int64_t last_time = 0;

    // Adds messages whose timestamps lie between these two, which at least one message each has.
    void Add(std::uint64_t more, std::int64_t first, std::int64_t last);
  };
  // Timestamps that are in one group: those from `first` up to and including `last`.
  struct Span {
    std::int64_t first;
    std::int64_t last;

    bool Holds(std::int64_t time) const { return time >= first && time <= last; }
  };

  explicit MessageGroups(const SummaryOptions& options) : options_(options) {}

  bool by_topic() const { return options_.topic_levels > 0; }
  // Returns what the group of a topic is named after: the levels by which it is grouped.
  std::string_view NameOf(std::string_view topic) const;
  // Returns whether all topics that lie between these two, in bytewise order, are in one group.
  bool AreOneGroup(std::string_view first_topic, std::string_view last_topic) const;
  // Returns the timestamps that are in the group of this one.
  Span SpanOf(std::int64_t time) const;
  // Returns the count of the group of a topic and a timestamp, which stays where it is as long as
  // this object lives.
  Count& CountOf(std::string_view topic, std::int64_t time);

  // Notes that so many messages were read one by one.
  void AddRead(std::uint64_t rows) { rows_read_ += rows; }
  // Returns kInvalidArgument if there are more groups, or more messages were read one by one, than
  // the options allow.
  Status CheckSize() const;
  // Returns the groups, sorted by the bytes of their topics and by time.
  std::vector<MessageGroup> Sorted() const;

 private:
  // What messages of one group have in common. `span` is the first timestamp of its span.
  struct Key {
    std::string topic;
    std::int64_t span;
  };
  struct KeyView {
    std::string_view topic;
    std::int64_t span;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const KeyView& key) const {
      return std::hash<std::string_view>()(key.topic) ^
             (std::hash<std::int64_t>()(key.span) * 0x9e3779b97f4a7c15U);
    }
    std::size_t operator()(const Key& key) const { return (*this)(KeyView{key.topic, key.span}); }
  };
  struct Equal {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a.span == b.span && a.topic == b.topic;
    }
  };

  const SummaryOptions options_;
  std::unordered_map<Key, Count, Hash, Equal> counts_;
  std::uint64_t rows_read_ = 0;
};

}  // namespace topicdb
