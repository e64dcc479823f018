// Finds out what the segment files of a directory hold when the log is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file/known_file.h"
#include "segment/segment_format.h"
#include "segment/segment_reader.h"
#include "segment/segment_writer.h"

namespace topicdb {

// Damage of a file, and the items of the log that it cost.
struct LogDamage {
  std::string path;
  std::string what;
  std::uint64_t first_sequence = 0;  // of the lost items
  std::uint64_t end_sequence = 0;    // after the last lost item; equal to first_sequence: none

  std::uint64_t items() const { return end_sequence - first_sequence; }
};

// A segment at some moment.
struct SegmentState {
  SegmentIdentity identity;
  SegmentEnd end;
  bool sealed = false;
  std::string path;
  // The weight of all segments before it (SegmentEnd::weight), and their items, including those
  // that were freed.
  std::uint64_t weight_before = 0;
  std::uint64_t items_before = 0;
};

// The end of the last segment, as it was noted when the log was closed.
struct LogEnd {
  std::uint64_t segment = 0;  // 0: there is no segment
  SegmentEnd end;
};

// Which segments a log has, and how it writes them.
struct SegmentLogOptions {
  std::string directory;
  const SegmentFormat* format = nullptr;
  QueueId queue_id{};
  std::uint64_t segment_bytes = 0;  // a segment with at least this many bytes is sealed
  // Whether the files outlive the queue. If not, nobody syncs them.
  bool durable = true;
  bool weighed = false;  // whether items are appended with weights
  // A file that is open in the directory. If it is not in place any more, the directory was removed
  // or replaced, and segments are neither made nor removed there. Absent: nobody looks.
  std::optional<KnownFile> place = std::nullopt;
};

// The segments of a log as they were found.
struct FoundSegments {
  std::vector<SegmentState> segments;  // by number; all are sealed, except perhaps the last
  std::uint64_t next_number = 1;
  std::uint64_t previous_end = 1;  // the number after the last item
  std::vector<LogDamage> damage;
};

// Lists and checks the segments of a directory. Leaves the last one unsealed if it ends at
// `known_end`. Cuts any other unsealed segment behind its last whole append, and seals it. Renames
// a file that is not a segment to "….damaged". With `look_only`, changes nothing on disk. Returns
// kSchema, and changes nothing in that file, if a later version wrote one.
Result<FoundSegments> FindSegments(const SegmentLogOptions& options,
                                   const std::optional<LogEnd>& known_end, bool look_only);

}  // namespace topicdb
