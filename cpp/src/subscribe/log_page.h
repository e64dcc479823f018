// A part of the commit log that was read once for all subscribers that want something of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "subscribe/interest.h"
#include "topicdb/message.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Messages of one shard in the order of commits, with the place of each.
struct LogRows {
  std::shared_ptr<const Batch> batch;  // with serials
  std::vector<std::uint32_t> indexes;  // of the messages in their commits

  std::size_t size() const { return indexes.size(); }
  CommitPlace place(std::size_t row) const { return {batch->serial(row), indexes[row]}; }
  // Returns the first row that is not before the place `at`, or size() if all are before it.
  std::size_t RowAt(const CommitPlace& at) const;
};
using SharedLogRows = std::shared_ptr<const LogRows>;

// What was read of the log of one shard, from one place to another.
struct LogSpan {
  std::uint32_t shard = 0;
  CommitPlace from;
  CommitPlace to;
  bool at_end = false;  // there was nothing behind it when it was read
  // A generation without a log has messages of the span that the interests it was read for do not
  // want. Others may want them.
  bool passed_unlogged = false;
  // Both are of the view that the span was read from.
  std::uint64_t removals_version = 0;
  Serial view_serial;
  SharedLogRows rows;
  // What iterators have given is left out, so the span is for their lane alone. Null: it is whole.
  std::shared_ptr<const GivenReads> given = {};
};

// Keeps the messages of a span, and finds those of each interest. The page cache and the threads of
// the hub share it. Immutable, except that RowsOf keeps its results.
class LogPage {
 public:
  LogPage(std::shared_ptr<const InterestSet> interests, LogSpan span);

  const LogSpan& span() const { return span_; }
  bool Holds(const CommitPlace& place) const { return span_.from <= place && place < span_.to; }
  // Returns whether the page has all messages of its span that the interest wants.
  bool Covers(const Interest& interest) const {
    return span_.passed_unlogged ? interests_->Has(interest) : interests_->Covers(interest);
  }
  // Returns the rows that the interest wants, or null if there are none. Equal interests get the
  // same object. REQUIRES: Covers(interest), and one thread at a time calls RowsOf
  SharedLogRows RowsOf(const Interest& interest);
  // Returns the rows of each interest that the page was read for and that finds something here, by
  // the number of the interest.
  const std::map<std::uint64_t, SharedLogRows>& rows() const { return rows_; }
  // Returns about how much memory the page takes, without what RowsOf has made later.
  std::size_t bytes() const { return bytes_; }

 private:
  using RowNumbers = std::vector<std::uint32_t>;
  // Returns the numbers of the rows that the interest wants.
  RowNumbers Find(const Interest& interest) const;
  // Finds the rows of all interests that the page was read for, in the order of the interests.
  std::vector<RowNumbers> FindByTree() const;
  // Returns these rows as rows of their own, or null if there are none.
  SharedLogRows Choose(const RowNumbers& rows) const;

  const std::shared_ptr<const InterestSet> interests_;
  const LogSpan span_;
  std::size_t bytes_;
  std::map<std::uint64_t, SharedLogRows> rows_;   // by interest, for those it was read for
  std::map<std::uint64_t, SharedLogRows> asked_;  // by interest, for others
};

}  // namespace topicdb
