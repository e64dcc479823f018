// Reads a stream in its promised order: by (timestamp, serial, index in the batch).
//
// Keys are sorted by (timestamp, words), so the reader gathers the rows of one timestamp, a group,
// and sorts them. It reads a group that is too large for memory in several passes, and each pass
// keeps the rows that come next. Without timestamps (a map of topics), it reads in the order of
// keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layout/layout.h"
#include "layout/skipstream/skipstream_cursor.h"

namespace topicdb::skipstream {

// Reads the one stream of a request. The caller of NewReader owns it. Not thread-safe.
class SkipstreamReader : public StreamReader {
 public:
  SkipstreamReader(const RocksSource& source, ReadRequest request, std::uint32_t timestamp_bytes);

  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;
  const Position& position() const override { return position_; }
  ReadCounters counters() const override;

  // Sets how much of a group is kept in memory in one pass. For tests.
  void SetGroupLimits(std::size_t rows_max, std::size_t bytes_max);

 private:
  using Rank = std::pair<Serial, std::uint32_t>;  // serial, index
  // A row of the group.
  struct GroupRow {
    Rank rank;
    std::size_t begin;  // offset in arena_ of the topic, which the value follows
    std::size_t topic_size;
    std::size_t value_size;
  };

  // Do the work of Read for a database with timestamps, and for one without.
  Result<ReadOutcome> ReadByTime(const ReadLimits& limits, Batch* out);
  Result<ReadOutcome> ReadByKey(const ReadLimits& limits, Batch* out);
  // Moves the cursor to the position of the request. Called once.
  void Start();
  // Moves the cursor to the first row at or after this timestamp.
  void SeekTime(std::int64_t timestamp);
  // Gathers the rows of the next timestamp. Returns false if it examined rows up to `examined_end`
  // before the group was complete.
  bool GatherGroup(std::size_t examined_end);
  // Adds the row of the cursor to the group, unless it was appended before or is above ceiling_.
  void GatherRow();
  // Leaves out the second half of the group, which another pass reads.
  void ShrinkGroup();
  // Appends the sorted rows of the group. Returns false if a limit stopped it.
  bool EmitGroup(const ReadLimits& limits, Batch* out);
  // Returns whether the limits admit one more row. An empty batch takes any row.
  static bool HasRoom(const ReadLimits& limits, const Batch& out, std::size_t topic_size,
                      std::size_t value_size);

  // Returns what a message of the cursor's row has as its value.
  std::string_view WantedValue() const {
    return with_values_ ? cursor_.value().value : std::string_view();
  }

  const std::uint32_t timestamp_bytes_;
  const TimeRange range_;
  const bool with_values_;
  const TopicBuilder topic_builder_;
  RowCursor cursor_;
  Position position_;
  std::uint64_t matched_ = 0;
  bool started_ = false;

  std::size_t group_rows_max_;
  std::size_t group_bytes_max_;
  bool in_group_ = false;      // a group is being gathered or emitted
  bool group_sorted_ = false;  // the group is complete and is being emitted
  bool group_cut_ = false;     // rows above ceiling_ were left out, so another pass follows
  std::int64_t group_time_ = 0;
  Rank ceiling_{};
  std::size_t next_row_ = 0;
  std::vector<GroupRow> group_;
  std::string arena_;  // the topics and values of group_
  std::string topic_;  // of the row that is being read
};

}  // namespace topicdb::skipstream
