// Staged blocks: messages that a job has prepared for a slab before a commit places them. They are
// sorted, compressed and indexed as in a sealed block. They have no serials yet, and have groups of
// topics instead of streams.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// The pages of a staged block are stored before a commit gives the block its number. Their own
// numbers begin here.
inline constexpr std::uint64_t kStagedPagesMin = std::uint64_t{1} << 63;

// A topic, and the stream that the job would give it, as a group.
struct StagedTopic {
  std::uint32_t group = 0;  // counted from 1
  std::string text;
};

// The messages of a staged block that is not built yet, in the order in which they came.
struct StagedRows {
  // A message. Its topic and value are in the other members.
  struct Row {
    std::uint32_t topic;        // index in `topics`
    std::uint32_t value_begin;  // offset in `values`
    std::uint32_t value_size;
    std::int64_t time;  // counts from 0 if the commit is to assign the timestamps
  };
  std::vector<StagedTopic> topics;  // each topic once
  std::vector<Row> rows;
  std::string values;
  std::size_t topic_bytes = 0;  // of all rows
  bool assigns_times = false;   // whether the commit is to assign the timestamps

  // Returns the bytes of topics and values.
  std::size_t bytes() const { return topic_bytes + values.size(); }
};

// A staged block: what its pages do not say about it. A commit takes it to install the block.
struct StagedBlock {
  std::uint64_t pages = 0;  // the number under which its pages are stored
  bool assigns_times = false;
  std::uint32_t rows = 0;
  std::uint64_t bytes = 0;  // of topics and values
  std::int64_t first_time = 0;
  std::int64_t last_time = 0;
  std::vector<StagedTopic> topics;  // sorted by group and text
  // Records of the block, as the layout encodes them.
  std::string entry;
  std::string directory;
  std::string word_filter;
};

// What a commit has decided about a staged block.
struct StagedPlace {
  Serial serial;
  std::int64_t time_shift = 0;        // added to the times in the pages
  std::span<const StreamId> streams;  // the stream of each topic of the block
};

// Says what has become of a staged block.
enum class StagedState {
  kAbsent,  // the slab has no such pages
  kStored,  // the slab has the pages, but no block that they belong to
  kInstalled,
};

// Stores a record of a page under a key. Called in the order of keys.
using KeySink = std::function<Status(std::string_view key, std::string_view record)>;
// Returns the record that is stored under a key, or kCorruption if there is none.
using KeySource = std::function<Result<std::string>(std::string_view key)>;

// Sorts rows, compresses them into pages, passes the records of the pages to `sink`, and fills
// `block`. `pages` is the number under which the pages are stored.
// REQUIRES: at least one row; pages >= kStagedPagesMin, and no other pages of the slab have or will
// have this number
Status StageBlock(const StagedRows& rows, std::uint64_t pages, std::size_t page_bytes_max,
                  const KeySink& sink, StagedBlock* block);
// A message of a staged block. Valid during the call that visits it.
struct StagedMessage {
  std::string_view topic;
  std::int64_t time;
  std::string_view value;
  std::uint32_t index;  // number of its row, in the order in which rows came
};

// Calls visit for each message of a block that StageBlock has made, now or in an earlier version,
// until visit returns an error. Visits messages of one topic in the order of their times, and
// messages of equal time in the order in which they came. Returns the error of visit or of
// `source`, or kCorruption if the block is damaged.
Status ForEachStagedMessage(const StagedBlock& block, const KeySource& source,
                            const std::function<Status(const StagedMessage&)>& visit);
}  // namespace topicdb
