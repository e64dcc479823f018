// Rows of one stream in the order of their keys, limited to those that a filter lets through.
//
// With words required at some varying levels, the index runs of those words are joined leap-frog:
// every run is moved to the largest suffix that any of them stands at, until all agree; the data
// key with that suffix is then the row. Hashes may collide, so the words are compared at last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"
#include "layout/skipstream/skipstream_keys.h"
#include "layout/skipstream/skipstream_run.h"

namespace topicdb::skipstream {

// Whether the range has no time at all that a message can have; that is 0 without timestamps.
bool IsEmptyRange(const TimeRange& range, std::uint32_t timestamp_bytes);

class RowCursor {
 public:
  // Uses of the request: the stream, structure, filter, range, masks, serial_max.
  RowCursor(const RocksSource& source, const ReadRequest& request, std::uint32_t timestamp_bytes);

  // Moves to the first row whose suffix is >= `suffix` (or the range's start, if that is later).
  void Seek(std::string_view suffix);
  void Next();

  // False at the end and after an error; see status().
  bool Valid() const { return valid_; }
  const Status& status() const { return status_; }
  // Rows looked at since the cursor was made.
  std::size_t examined() const { return examined_; }

  // REQUIRES: Valid(). They point into memory of this cursor until it moves.
  const DecodedSuffix& key() const { return key_; }
  const DecodedValue& value() const { return value_; }

 private:
  // From where the runs stand to the next row that matches.
  void FindRow();
  // Moves the index runs to a common suffix; false at the end of any of them.
  bool AlignIndexes();
  // Whether the data run stands at a row that matches; ends the cursor on errors.
  bool AcceptRow();
  bool IsDeleted() const;
  bool Fail(Status status);
  // Whether the run stands at a key; sets status() if it stands at an error.
  bool CheckRun(const KeyRun& run);

  // As RowMask, for topics of this stream.
  struct Mask {
    RowFilter filter;
    TimeRange range;
    std::uint64_t serial;
    std::uint64_t serial_min;
  };

  std::vector<RowFilter> any_of_;  // a row matches one of them; none: no topic of the stream does
  const std::uint32_t timestamp_bytes_;
  const std::size_t varying_count_;
  std::vector<Mask> masks_;
  const std::uint64_t serial_max_;
  std::unique_ptr<KeyRun> data_;
  std::vector<std::unique_ptr<KeyRun>> indexes_;  // one for each constraint that has an index
  DecodedSuffix key_;
  DecodedValue value_;
  std::string scratch_;
  std::string target_;
  Status status_;
  std::size_t examined_ = 0;
  bool valid_ = false;
};

}  // namespace topicdb::skipstream
