// Reads the rows of one stream that match a filter, in the order of their keys.
//
// If the filter requires words at some varying levels, the cursor joins the index runs of those
// words by leap-frog. It moves every run to the largest suffix that any run stands at, until all
// runs agree. The data key with that suffix is the row. Hashes may collide, so the cursor compares
// the words at the end.
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

// Returns true if the range contains no time that a message can have. In a database without
// timestamps, messages have the time 0.
bool IsEmptyRange(const TimeRange& range, std::uint32_t timestamp_bytes);

// Moves over the matching rows of one stream, in the order of their keys. The reader of a stream
// owns it. Not thread-safe.
class RowCursor {
 public:
  // Of the request, uses the stream, structure, filter, or_filters, range, masks, serial_min and
  // serial_max.
  RowCursor(const RocksSource& source, const ReadRequest& request, std::uint32_t timestamp_bytes);

  // Moves to the first matching row whose suffix is >= `suffix`. Never moves to a row before the
  // start of the range.
  void Seek(std::string_view suffix);
  // Moves to the next matching row. REQUIRES: Valid()
  void Next();

  // Returns whether the cursor stands at a row. Returns false at the end and after an error, which
  // status() tells apart.
  bool Valid() const { return valid_; }
  const Status& status() const { return status_; }
  // Returns how many rows the cursor has examined since it was made.
  std::size_t examined() const { return examined_; }

  // The key and the value point into memory of this cursor, and are valid until it moves.
  // REQUIRES (key, value): Valid()
  const DecodedSuffix& key() const { return key_; }
  const DecodedValue& value() const { return value_; }

 private:
  // Moves to the first matching row at or behind the place where the runs stand.
  void FindRow();
  // Moves the index runs to a common suffix. Returns false at the end of any run.
  bool AlignIndexes();
  // Decodes the row at which the data run stands, and returns whether it matches. A malformed row
  // ends the cursor with kCorruption.
  bool AcceptRow();
  // Returns whether a mask hides the decoded row.
  bool IsDeleted() const;
  // Ends the cursor with an error. Always returns false.
  bool Fail(Status status);
  // Returns true if the run stands at a key. Sets status() if the run met an error.
  bool CheckRun(const KeyRun& run);

  // A RowMask for topics of this stream. `filter` stands for the one of the mask.
  struct Mask {
    RowFilter filter;
    RowMask mask;
  };

  std::vector<RowFilter> any_of_;  // a row must match one of them; empty: no topic can match
  const std::uint32_t timestamp_bytes_;
  const std::size_t varying_count_;
  std::vector<Mask> masks_;
  const Serial serial_min_;
  const Serial serial_max_;
  std::unique_ptr<KeyRun> data_;
  std::vector<std::unique_ptr<KeyRun>> indexes_;  // one run for each constraint that has an index
  DecodedSuffix key_;
  DecodedValue value_;
  std::string scratch_;
  std::string target_;
  Status status_;
  std::size_t examined_ = 0;
  bool valid_ = false;
};

}  // namespace topicdb::skipstream
