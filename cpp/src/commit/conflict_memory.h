// What was committed lately to a shard, so that a transaction can be told whether anything it read
// has changed since it began.
//
// Exact: topics and timestamps as they were written, none merged. Bounded: when there are more
// entries than allowed, or they are older than the window, the older half goes. What began before
// that can no longer be judged and is refused (Forgot), never let through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// Not thread-safe; the shard's commit mutex guards it.
class ConflictMemory {
 public:
  // entries_max: messages and deletes that are remembered, at most.
  explicit ConflictMemory(std::size_t entries_max) : entries_max_(entries_max) {}

  // Serials are given in rising order.
  void RecordWrite(std::string_view topic, std::int64_t timestamp, std::uint64_t serial);
  void RecordDelete(const KeyRange& keys, std::uint64_t serial);
  // Forgets what was recorded up to the Age before this one. To be called once a window.
  void Age();
  // Forgets everything: who began before the commit `serial` is not there, or shall be refused.
  void Clear(std::uint64_t serial);

  // Whether what was committed after `serial` is no longer known in full.
  bool Forgot(std::uint64_t serial) const { return serial < forgotten_; }
  // The last commit after `serial` that touched `keys`; 0 if there is none.
  // REQUIRES: !Forgot(serial)
  std::uint64_t FindChange(const KeyRange& keys, std::uint64_t serial) const;

  std::size_t entries() const { return current_.entries + old_.entries; }

 private:
  struct Write {
    std::int64_t timestamp;
    std::uint64_t serial;
  };
  struct Delete {
    KeyRange keys;
    std::uint64_t serial;
  };
  struct Half {
    std::map<std::string, std::vector<Write>, std::less<>> writes;  // by topic
    std::vector<Delete> deletes;
    std::size_t entries = 0;
    std::uint64_t last_serial = 0;
  };

  void CountEntry(std::uint64_t serial);
  static std::uint64_t FindIn(const Half& half, const KeyRange& keys, std::uint64_t serial);

  const std::size_t entries_max_;
  Half current_;
  Half old_;
  std::uint64_t forgotten_ = 0;  // commits up to this one may be missing
};

}  // namespace topicdb
