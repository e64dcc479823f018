// What the segment files of a directory hold, found out when the log is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "segment/segment_format.h"
#include "segment/segment_reader.h"
#include "segment/segment_writer.h"

namespace topicdb {

// Something that was found to be wrong with the files, and what of the log it cost.
struct LogDamage {
  std::string path;
  std::string what;
  std::uint64_t first_sequence = 0;  // of the items that are lost; none if both are equal
  std::uint64_t end_sequence = 0;

  std::uint64_t items() const { return end_sequence - first_sequence; }
};

// A segment as of some moment.
struct SegmentState {
  SegmentIdentity identity;
  SegmentEnd end;
  bool sealed = false;
  std::string path;
  // Bytes of frames, and items, in all segments before it, and what was freed of this log.
  std::uint64_t bytes_before = 0;
  std::uint64_t items_before = 0;
};

// The end of the last segment, known from closing the log.
struct LogEnd {
  std::uint64_t segment = 0;  // 0: there is no segment
  SegmentEnd end;
};

struct SegmentLogOptions {
  std::string directory;
  const SegmentFormat* format = nullptr;
  QueueId queue_id{};
  std::uint64_t segment_bytes = 0;  // a segment of so many bytes is sealed
};

// The segments of a log as they were found.
struct FoundSegments {
  std::vector<SegmentState> segments;  // by number; all sealed but perhaps the last
  std::uint64_t next_number = 1;
  std::uint64_t previous_end = 1;  // what follows the last item
  std::vector<LogDamage> damage;
};

// Lists and checks the segments of a directory. The last one is not sealed if it ends at
// `known_end`; any other one is sealed if it was not, and cut behind its last whole append; files
// that are no segments are renamed to "….damaged". With `look_only`, nothing on disk is changed.
Result<FoundSegments> FindSegments(const SegmentLogOptions& options,
                                   const std::optional<LogEnd>& known_end, bool look_only);

}  // namespace topicdb
