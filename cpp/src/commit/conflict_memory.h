// Remembers what was committed lately to a shard, and tells whether anything that a transaction has
// read was changed since the transaction began.
//
// The memory is exact: it keeps topics and timestamps as they were written, and merges none. It is
// bounded: it forgets the older half when there are too many entries, or when they are older than
// the window. A transaction that began before the forgotten half is refused (Forgot), since nobody
// can judge it any more.
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
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// Keeps the messages and deletes of the last commits, in two halves by age. The shard's
// TransactionCheck owns it. Not thread-safe: the shard's commit mutex guards it.
class ConflictMemory {
 public:
  // It remembers at most `entries_max` messages and deletes.
  explicit ConflictMemory(std::size_t entries_max) : entries_max_(entries_max) {}

  // Add a message or a delete of a commit. REQUIRES (RecordWrite, RecordDelete): serials do not
  // fall from call to call
  void RecordWrite(std::string_view topic, std::int64_t timestamp, Serial serial);
  void RecordDelete(const KeyRange& keys, Serial serial);
  // Forgets what was recorded before the last call of Age. The caller calls it once in each window.
  void Age();
  // Forgets everything. From then on, transactions that began before commit `serial` are refused.
  void Clear(Serial serial);

  // Returns whether some commits after `serial` are forgotten.
  bool Forgot(Serial serial) const { return serial < forgotten_; }
  // Returns the last commit after `serial` that changed something in `keys`, or kNoSerial if there
  // is none. REQUIRES: !Forgot(serial)
  Serial FindChange(const KeyRange& keys, Serial serial) const;

  // Returns how many messages and deletes are remembered.
  std::size_t entries() const { return current_.entries + old_.entries; }

 private:
  // A message that was committed; its topic is the key of Half::writes.
  struct Write {
    std::int64_t timestamp;
    Serial serial;
  };
  // A delete that was committed.
  struct Delete {
    KeyRange keys;
    Serial serial;
  };
  // What was committed between two calls of Age.
  struct Half {
    std::map<std::string, std::vector<Write>, std::less<>> writes;  // by topic
    std::vector<Delete> deletes;
    std::size_t entries = 0;
    Serial last_serial;
  };

  // Counts an entry of current_. Forgets the older half if there are too many.
  void CountEntry(Serial serial);
  // Does the work of FindChange for one half.
  static Serial FindIn(const Half& half, const KeyRange& keys, Serial serial);

  const std::size_t entries_max_;
  Half current_;
  Half old_;
  Serial forgotten_;  // commits up to this one may be missing
};

}  // namespace topicdb
