// Messages that a job has prepared for a slab before a commit places them: sorted, compressed and
// indexed as in a sealed block, but without serials, and with groups of topics instead of streams.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb {

// Pages of staged blocks are stored before a commit numbers their block: under numbers from here
// on.
inline constexpr std::uint64_t kStagedPagesMin = std::uint64_t{1} << 63;

// A topic and the stream that the job would give it.
struct StagedTopic {
  std::uint32_t group = 0;  // from 1
  std::string text;
};

// Messages on their way into a staged block, in the order in which they came.
struct StagedRows {
  struct Row {
    std::uint32_t topic;        // in topics
    std::uint32_t value_begin;  // in values
    std::uint32_t value_size;
    std::int64_t time;  // from 0 on if the commit is to assign it
  };
  std::vector<StagedTopic> topics;  // each once
  std::vector<Row> rows;
  std::string values;
  std::size_t topic_bytes = 0;  // of all rows
  bool assigns_times = false;

  std::size_t bytes() const { return topic_bytes + values.size(); }
};

struct StagedBlock {
  std::uint64_t pages = 0;  // the number under which its pages are stored
  bool assigns_times = false;
  std::uint32_t rows = 0;
  std::uint64_t bytes = 0;  // of topics and values
  std::int64_t first_time = 0;
  std::int64_t last_time = 0;
  std::vector<StagedTopic> topics;  // sorted by group and text
  // Records, as the layout encodes them.
  std::string entry;
  std::string directory;
  std::string word_filter;
};

// What a commit has decided about a staged block.
struct StagedPlace {
  std::uint64_t serial = 0;
  std::int64_t time_shift = 0;
  std::span<const std::uint32_t> streams;  // by topic
};

enum class StagedState {
  kAbsent,  // no pages
  kStored,  // pages, but no block that has them
  kInstalled,
};

// Stores a page under a key, in the order of keys.
using KeySink = std::function<Status(std::string_view key, std::string_view page)>;

// Sorts rows, at least one, and compresses them into pages, which are given to `sink`; `pages` is a
// number from kStagedPagesMin on that no other block of the slab's pages will have.
Status StageBlock(const StagedRows& rows, std::uint64_t pages, std::size_t page_bytes_max,
                  const KeySink& sink, StagedBlock* block);
// The number that StageBlock was given for this page.
std::uint64_t StagedPagesOf(std::string_view key);
struct StagedMessage {
  std::string_view topic;
  std::int64_t time;
  std::string_view value;
  std::uint32_t index;  // of its row in the order in which they came
};

// Calls visit for the messages of a page that StageBlock has made; those of a topic in the order of
// their times, and where these are equal of their arrival. kCorruption.
Status ForEachStagedMessage(std::string_view page,
                            const std::function<Status(const StagedMessage&)>& visit);
}  // namespace topicdb
