// What a transaction has written and deleted so far, in the order of the program. It decides what
// the transaction's own reads see, and what there is to commit.
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

// Collects the writes and deletes of one transaction. Not thread-safe.
class TransactionWrites {
 public:
  struct Write {
    std::string topic;
    std::int64_t timestamp;  // or kAssignTimestamp
    std::string value;
    bool is_serial = false;  // the value is assigned at commit
    bool gone = false;       // a later write or delete has replaced or deleted it
  };

  void Add(Write write);
  // Adds a delete. It also deletes earlier writes that match.
  void Delete(KeyRange keys);

  // Returns the write that a read of this key finds, or nullptr if there is none.
  const Write* Find(std::string_view topic, std::int64_t timestamp) const;
  bool IsDeleted(std::string_view topic, std::int64_t timestamp) const;
  // Returns the writes that a read of these keys finds, ordered by timestamp.
  std::vector<const Write*> FindAll(const KeyRange& keys) const;

  const std::vector<KeyRange>& deletes() const { return deletes_; }
  // In the order of the program, including those that are gone.
  const std::vector<Write>& writes() const { return writes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Write> writes_;
  // Where writes_ has the latest write of each key. Writes without a timestamp have no key.
  std::map<std::pair<std::int64_t, std::string>, std::size_t> latest_;
  std::vector<KeyRange> deletes_;
  std::vector<std::size_t> wide_deletes_;  // where deletes_ has deletes of ranges
  std::set<std::pair<std::int64_t, std::string>> point_deletes_;  // all other deletes
  std::size_t bytes_ = 0;
};

// The scan of a transaction. It reads what was committed when the transaction began, by timestamp,
// with the transaction's own writes and deletes laid over it. It keeps a copy of these.
class OverlaySource : public MessageSource {
 public:
  // `overwrites`: the layout overwrites, so an own write hides a committed message with the same
  // topic and timestamp.
  OverlaySource(std::unique_ptr<MessageSource> base, TransactionWrites own, const KeyRange& keys,
                bool overwrites);
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;

 private:
  // Moves to the next committed message that is neither deleted nor replaced. Returns kMore if
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
