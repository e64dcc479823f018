// Makes the pages of a sealed block, and what is known of them.
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

// Called with each page in turn, counted from 0.
using PageSink = std::function<Status(std::uint32_t number, std::string_view page)>;

// Not thread-safe; for one block.
class BlockBuilder {
 public:
  BlockBuilder(PageCodec codec, std::size_t page_bytes_max)
      : codec_(codec), page_bytes_max_(page_bytes_max) {}

  // REQUIRES: rows are sorted by stream, topic, timestamp, serial and index; at least one
  Status Build(std::span<const PackedRow> rows, const PageSink& sink);

  // Of what was built.
  const BlockEntry& entry() const { return entry_; }
  const Directory& directory() const { return directory_; }
  const std::string& word_filter() const { return word_filter_; }
  // The record of its topics.
  Result<std::string> TopicRecord() const {
    return topics_.Build(entry_.rows, entry_.pages, entry_.extent);
  }
  // By page: its first row.
  const std::vector<std::size_t>& page_begins() const { return page_begins_; }

 private:
  // Rows up to which the page that begins at `begin` goes.
  std::size_t PageEnd(std::span<const PackedRow> rows, std::size_t begin) const;
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
