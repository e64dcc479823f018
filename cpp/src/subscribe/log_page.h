// A part of the commit log that was read once for all who want something of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "subscribe/interest.h"
#include "topicdb/message.h"

namespace topicdb {

// Messages of one shard in the order of commits, and where each was committed.
struct LogRows {
  std::shared_ptr<const Batch> batch;  // with serials
  std::vector<std::uint32_t> indexes;  // in their commits

  std::size_t size() const { return indexes.size(); }
  CommitPlace place(std::size_t row) const { return {batch->serial(row), indexes[row]}; }
  // The first row that is not before a place; size() if all are.
  std::size_t RowAt(const CommitPlace& at) const;
};
using SharedLogRows = std::shared_ptr<const LogRows>;

// What was read of one shard's log from one place to another.
struct LogSpan {
  std::uint32_t shard = 0;
  CommitPlace from;
  CommitPlace to;
  bool at_end = false;  // there was nothing behind it when it was read
  // Of the view that it was read from.
  std::uint64_t removals_version = 0;
  std::uint64_t view_serial = 0;
  SharedLogRows rows;
};

// Immutable but for a memo: see RowsOf.
class LogPage {
 public:
  LogPage(std::shared_ptr<const InterestSet> interests, LogSpan span);

  const LogSpan& span() const { return span_; }
  bool Holds(const CommitPlace& place) const { return span_.from <= place && place < span_.to; }
  // Whether it has all that there is of the interest.
  bool Covers(const Interest& interest) const { return interests_->Covers(interest); }
  // Those who want the same get the same rows. Null: there are none.
  // REQUIRES: Covers(interest); one thread at a time calls it
  SharedLogRows RowsOf(const Interest& interest);
  // Of the interests that it was read for: those that find something here.
  const std::map<std::uint64_t, SharedLogRows>& rows() const { return rows_; }
  std::size_t bytes() const { return bytes_; }

 private:
  using RowNumbers = std::vector<std::uint32_t>;
  RowNumbers Find(const Interest& interest) const;
  // Of all interests it was read for, at once; by their places among them.
  std::vector<RowNumbers> FindByTree() const;
  SharedLogRows Choose(const RowNumbers& rows) const;

  const std::shared_ptr<const InterestSet> interests_;
  const LogSpan span_;
  std::size_t bytes_;
  std::map<std::uint64_t, SharedLogRows> rows_;   // by interest, of those it was read for
  std::map<std::uint64_t, SharedLogRows> asked_;  // of others
};

}  // namespace topicdb
