// Makes the pages of a sealed block, and the records about them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/format/block_filter.h"
#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page.h"
#include "layout/columnar/format/topic_list.h"

namespace topicdb::columnar {

// Takes each record of pages in turn. `number` is the last part of its key (SealedPageKey), and
// rises from call to call.
using PageSink = std::function<Status(std::uint32_t number, std::string_view record)>;

// Builds one block. A step of sealing or a job owns it. Not thread-safe.
class BlockBuilder {
 public:
  BlockBuilder(PageCodec codec, PageForm form, std::size_t page_bytes_max)
      : codec_(codec), form_(form), page_bytes_max_(page_bytes_max) {}

  // Makes pages of the rows and passes them to `sink`. Returns an error of `sink`, or kStorage if a
  // page cannot be compressed. Must be called once.
  // REQUIRES: at least one row; rows are sorted by stream, topic, timestamp, serial and index
  Status Build(std::span<const PackedRow> rows, const PageSink& sink);

  // Return the records of the block, except for their encoding.
  // REQUIRES (entry, directory, word_filter, TopicRecord, page_begins): Build has succeeded
  const BlockEntry& entry() const { return entry_; }
  const Directory& directory() const { return directory_; }
  const std::string& word_filter() const { return word_filter_; }
  // Returns the record of the block's topics (topic_list.h). Returns kStorage if it cannot be
  // compressed.
  Result<std::string> TopicRecord() const {
    return topics_.Build(entry_.rows, entry_.pages, entry_.extent);
  }
  // Returns the number of the first row of each page.
  const std::vector<std::size_t>& page_begins() const { return page_begins_; }

 private:
  // Returns the row at which the page that begins with row `begin` ends.
  std::size_t PageEnd(std::span<const PackedRow> rows, std::size_t begin) const;
  // Returns the rows of a page. REQUIRES: page < page_begins_.size(), whose pages are all of the
  // block
  std::span<const PackedRow> RowsOf(std::span<const PackedRow> rows, std::size_t page) const;
  // Notes a page, and adds its topics to the filters.
  void AddPage(std::span<const PackedRow> part);
  // Makes the record of each page, or of its keys, and passes it to `sink`. Then makes the records
  // of values, if the block has any. Two passes spare memory for the values that wait: records go
  // to the sink in the order of their keys.
  Status WriteRecords(std::span<const PackedRow> rows, const PageSink& sink);
  // Adds each topic of the rows to topics_.
  void ListTopics(std::span<const PackedRow> rows);

  const PageCodec codec_;
  const PageForm form_;
  const std::size_t page_bytes_max_;
  BlockEntry entry_;
  Directory directory_;
  FilterBuilder words_;
  FilterBuilder streams_;
  std::string word_filter_;
  TopicListBuilder topics_;
  std::vector<std::size_t> page_begins_;
};

}  // namespace topicdb::columnar
