// Reads slabs for another process: pages go there as they are stored, where all their rows are
// wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"
#include "topicdb/database/parcel.h"

namespace topicdb {

// A page as it is stored, and what its block says about it.
struct PageInParcel {
  std::string_view keys;    // the whole page, or the record of its keys
  std::string_view values;  // the record of its values, or nothing
  bool has_values = true;   // false: they were left out
  std::uint32_t rows = 0;
  Serial serial;                // of all rows, if the block is a staged one; otherwise kNoSerial
  std::int64_t time_shift = 0;  // to be added to all times
};

// Makes a parcel. A reader fills it, and its caller takes it. Not thread-safe.
class ParcelBuilder {
 public:
  ParcelBuilder();

  // Copies a page.
  void AddPage(const PageInParcel& page);
  // Adds messages that are not stored together as a page of their own. `rows` must keep serials; an
  // empty batch adds nothing. Returns kStorage if they cannot be compressed.
  Status AddRows(const Batch& rows, bool with_values);

  std::uint64_t messages() const { return parcel_.messages; }
  std::size_t bytes() const { return parcel_.bytes.size(); }
  // Returns the parcel. It is empty if nothing was added. REQUIRES: it is the last call
  Parcel Take();

 private:
  void AppendRecord(std::string_view record);

  Parcel parcel_;
  std::uint32_t pages_ = 0;
};

// Adds the messages that reader->Read(limits, batch) gives as a page of their own, and returns what
// it returns.
template <typename Reader>
Result<ReadOutcome> ReadAsPage(Reader* reader, const ReadLimits& limits, bool with_values,
                               ParcelBuilder* out) {
  Batch rows(/*keeps_serials=*/true);
  TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome, reader->Read(limits, &rows));
  TOPICDB_RETURN_IF_ERROR(out->AddRows(rows, with_values));
  return outcome;
}

// Makes one pass over the messages of requests, in no order, for parcels. The caller owns it, and
// must destroy it before the shard closes. Not thread-safe.
class ParcelSource {
 public:
  ParcelSource() = default;
  virtual ~ParcelSource() = default;
  ParcelSource(const ParcelSource&) = delete;
  ParcelSource& operator=(const ParcelSource&) = delete;

  // Adds the next messages. Ends after the page with which the parcel reaches `bytes_max`; the
  // limit for rows does not count. Returns kCorruption if the data cannot be right.
  virtual Result<ReadOutcome> ReadParcel(const ReadLimits& limits, ParcelBuilder* out) = 0;
  // Returns what it has done since it was made.
  virtual ReadCounters counters() const = 0;
};

// Returns a source over the blocks of a slab. Only for layouts that have blocks. REQUIRES: as for
// NewUnorderedReader (layout/blocks.h)
std::unique_ptr<ParcelSource> NewParcelSource(const RocksSource& source,
                                              std::vector<ReadRequest> any_of);

}  // namespace topicdb
