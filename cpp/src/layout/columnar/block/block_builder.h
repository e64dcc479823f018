// Makes the pages of a sealed block, and the records about them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page.h"
#include "layout/columnar/format/topic_list.h"

namespace topicdb::columnar {

// Takes each page in turn. `number` counts the pages from 0.
using PageSink = std::function<Status(std::uint32_t number, std::string_view page)>;

// Builds one block. A step of sealing or a job owns it. Not thread-safe.
class BlockBuilder {
 public:
  BlockBuilder(PageCodec codec, std::size_t page_bytes_max)
      : codec_(codec), page_bytes_max_(page_bytes_max) {}

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
  // Adds each topic of the rows to topics_.
  void ListTopics(std::span<const PackedRow> rows);

  const PageCodec codec_;
  const std::size_t page_bytes_max_;
  BlockEntry entry_;
  Directory directory_;
  std::string word_filter_;
  TopicListBuilder topics_;
  std::vector<std::size_t> page_begins_;
};

}  // namespace topicdb::columnar
