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

class SkipstreamReader : public StreamReader {
 public:
  SkipstreamReader(const RocksSource& source, ReadRequest request, std::uint32_t timestamp_bytes);

  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;
  const Position& position() const override { return position_; }
  ReadCounters counters() const override;

  // Bounds a group in memory. For tests.
  void SetGroupLimits(std::size_t rows_max, std::size_t bytes_max);

 private:
  using Rank = std::pair<std::uint64_t, std::uint32_t>;  // serial, index
  struct GroupRow {
    Rank rank;
    std::size_t begin;  // offset in arena_ of the topic, which the value follows
    std::size_t topic_size;
    std::size_t value_size;
  };

  Result<ReadOutcome> ReadByTime(const ReadLimits& limits, Batch* out);
  Result<ReadOutcome> ReadByKey(const ReadLimits& limits, Batch* out);
  void Start();
  void SeekTime(std::int64_t timestamp);
  // Gathers the rows of the next timestamp. Returns false if it examined rows up to `examined_end`
  // before the group was complete.
  bool GatherGroup(std::size_t examined_end);
  void GatherRow();
  void ShrinkGroup();
  // Appends the sorted rows of the group. Returns false if a limit stopped it.
  bool EmitGroup(const ReadLimits& limits, Batch* out);
  static bool HasRoom(const ReadLimits& limits, const Batch& out, std::size_t topic_size,
                      std::size_t value_size);

  const std::uint32_t timestamp_bytes_;
  const TimeRange range_;
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
  std::string arena_;
  std::string topic_;
};

}  // namespace topicdb::skipstream
