// What a transaction has written and deleted so far, in the order of the program: what it shows of
// that to its own reads, and what is left of it at commit.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/read/stream_sources.h"
#include "topicdb/message.h"

namespace topicdb {

// Not thread-safe.
class TransactionWrites {
 public:
  struct Write {
    std::string topic;
    std::int64_t timestamp;  // or kAssignTimestamp
    std::string value;
    bool is_serial = false;  // the value is assigned at commit
    bool gone = false;       // replaced or deleted by what came after
  };

  void Add(Write write);
  // Takes earlier writes that match, too.
  void Delete(KeyRange keys);

  // The write that a read of this key finds; nullptr if there is none.
  const Write* Find(std::string_view topic, std::int64_t timestamp) const;
  bool IsDeleted(std::string_view topic, std::int64_t timestamp) const;
  // Writes that a read finds, by timestamp.
  std::vector<const Write*> FindAll(const KeyRange& keys) const;

  const std::vector<KeyRange>& deletes() const { return deletes_; }
  // In the order of the program, those that are gone too.
  const std::vector<Write>& writes() const { return writes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Write> writes_;
  std::map<std::pair<std::int64_t, std::string>, std::size_t> latest_;  // of those with a time
  std::vector<KeyRange> deletes_;
  std::vector<std::size_t> wide_deletes_;                         // of deletes_, those of ranges
  std::set<std::pair<std::int64_t, std::string>> point_deletes_;  // and the others
  std::size_t bytes_ = 0;
};

// A transaction's scan: what was committed when it began, by timestamp, with its own writes and
// deletes laid over it.
class OverlaySource : public MessageSource {
 public:
  // `overwrites`: the layout does, so an own write hides what is committed at its topic and time.
  OverlaySource(std::unique_ptr<MessageSource> base, TransactionWrites own, const KeyRange& keys,
                bool overwrites);
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;

 private:
  // Moves to the next committed message that is neither deleted nor replaced; kMore if
  // `examined_max` stopped it.
  Result<ReadOutcome> FindBase(const ReadLimits& limits, bool with_serials);
  bool IsDeletedOrReplaced(const MessageView& committed) const;

  const std::unique_ptr<MessageSource> base_;
  const TransactionWrites own_;
  const std::vector<const TransactionWrites::Write*> own_rows_;
  const bool overwrites_;
  std::size_t next_own_ = 0;
  Batch page_;
  std::size_t row_ = 0;
  bool base_exhausted_ = false;
};

}  // namespace topicdb
