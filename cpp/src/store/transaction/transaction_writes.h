// The writes and deletes of a transaction so far, in the order of the program. They decide what the
// transaction's own reads see, and what there is to commit.
#pragma once

#include <cstdint>
#include <functional>
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

// Collects the writes and deletes of one transaction. The TransactionImpl owns it. Not thread-safe.
class TransactionWrites {
 public:
  // One write.
  struct Write {
    std::string topic;
    std::int64_t timestamp;  // or kAssignTimestamp
    std::string value;
    bool is_serial = false;  // the value is assigned at commit
    bool gone = false;       // a later write or delete has replaced or deleted it
  };

  // Adds a write. It replaces an earlier one with the same topic and timestamp.
  void Add(Write write);
  // Adds a delete. It also deletes earlier writes that match.
  void Delete(KeyRange keys);

  // Returns the last write of this key, or nullptr if there is none or it is gone.
  const Write* Find(std::string_view topic, std::int64_t timestamp) const;
  // Returns whether a delete matches this key. A later write of the key may exist all the same.
  bool IsDeleted(std::string_view topic, std::int64_t timestamp) const;
  // Returns the writes that a read of these keys finds, ordered by timestamp. Leaves out those
  // whose timestamp or value is assigned at commit. The pointers are valid until the next Add or
  // Delete.
  std::vector<const Write*> FindAll(const KeyRange& keys) const;

  const std::vector<KeyRange>& deletes() const { return deletes_; }
  // Returns all writes in the order of the program, including those that are gone.
  const std::vector<Write>& writes() const { return writes_; }
  // Returns the bytes of topics, values and filters.
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

// Tells whether a write to a topic will replace the messages with its topic and timestamp that are
// in slabs whose layout overwrites: whether the slab that takes the write is one of these.
using Replaces = std::function<bool(std::string_view topic)>;

// Reads for the scan of a transaction: what was committed when the transaction began, by timestamp,
// with the transaction's own writes and deletes laid over it. It keeps a copy of these. An own
// write hides a committed message if its commit will replace that. A ScanImpl owns it. Not
// thread-safe.
class OverlaySource : public MessageSource {
 public:
  OverlaySource(std::unique_ptr<MergedSource> base, TransactionWrites own, const KeyRange& keys,
                Replaces replaces);
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;

 private:
  // Moves to the next committed message that is neither deleted nor replaced, or to the end.
  // Returns kMore if it examined `examined_max` rows before it came there.
  Result<ReadOutcome> FindBase(const ReadLimits& limits, bool with_serials);
  // Returns whether the transaction has deleted or overwritten a committed message of this slab.
  bool IsDeletedOrReplaced(const MessageView& committed, const Slab& slab) const;

  const std::unique_ptr<MergedSource> base_;
  const TransactionWrites own_;
  const std::vector<const TransactionWrites::Write*> own_rows_;
  const Replaces replaces_;
  std::size_t next_own_ = 0;
  Batch page_;
  std::vector<const Slab*> slabs_;  // of the messages in page_
  std::size_t row_ = 0;
  bool base_exhausted_ = false;
};

}  // namespace topicdb
