// Reads blocks one after the other, page by page, in the order in which they store their rows.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/select/block_query.h"

namespace topicdb::columnar {

// Reads the messages that any of several requests wants. The caller of NewUnorderedReader owns it.
// Not thread-safe.
class UnorderedReader : public StreamReader {
 public:
  UnorderedReader(const RocksSource& source, const std::vector<ReadRequest>& any_of);

  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;
  // Always returns the position of the request: a read without an order cannot be resumed.
  const Position& position() const override { return position_; }
  ReadCounters counters() const override;

 private:
  // Fills blocks_.
  Status List();
  // Moves to the next page with rows that may be wanted. Returns false at the end.
  // `with_serials` says whether the serials of rows are wanted.
  Result<bool> NextPage(bool with_serials);
  // Finds out which pages of a block to read, and which of its rows are deleted.
  Status OpenBlock(const Block& block);
  // Loads the next pages of the block: at first one, and then more and more at once. So a caller
  // that reads few messages does not wait for pages that it does not need.
  Status LoadAhead(bool with_serials);
  // Returns which parts of the pages of a block are needed to find out which rows are wanted, and
  // to read these.
  PageParts PartsOf(const Block& block, bool with_serials) const;
  // Returns true if the row of the page is wanted.
  bool Wants(std::uint32_t row) const;
  // Append rows of the page from row_ on. Return false if a limit stopped them. AppendKeysOfRows is
  // for pages without values, and copies many rows at once.
  bool AppendRows(const ReadLimits& limits, Batch* out);
  bool AppendKeysOfRows(const ReadLimits& limits, Batch* out);
  // Returns the end of the rows from row_ on that are wanted and, if topics are, of one topic.
  std::uint32_t EndOfRun() const;

  const BlockQuery query_;
  const Position position_;
  const bool with_values_;
  const bool with_topics_;
  BlockReader reader_;
  ReadCounters counters_;

  bool listed_ = false;
  std::vector<Block> blocks_;
  std::size_t next_block_ = 0;
  std::vector<std::uint32_t> pages_;  // of the block before next_block_
  std::size_t next_page_ = 0;         // index in pages_ of the next page to load
  std::deque<std::pair<std::uint32_t, std::shared_ptr<const Page>>> loaded_;  // with their numbers
  std::uint64_t bytes_ahead_ = 0;                                             // to load at once
  DeletedByPage deleted_;

  std::shared_ptr<const Page> page_;
  const DeletedRows* deleted_rows_ = nullptr;  // null: none
  std::vector<bool> topics_;                   // for each topic of the page, whether it is wanted
  bool all_topics_ = false;                    // if true, all of these are wanted
  bool covered_ = false;                       // if true, all rows of wanted topics are wanted
  std::uint32_t row_ = 0;
};

}  // namespace topicdb::columnar
