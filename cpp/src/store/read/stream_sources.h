// Reads many streams: one after the other, or merged by time.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "layout/parcels.h"
#include "store/read/stream_plan.h"

namespace topicdb {

// Returns the messages of one read, batch by batch. Not thread-safe. Its owner must destroy it
// before the shards close.
class MessageSource {
 public:
  MessageSource() = default;
  virtual ~MessageSource() = default;
  MessageSource(const MessageSource&) = delete;
  MessageSource& operator=(const MessageSource&) = delete;
  // Works as StreamReader::Read does.
  virtual Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) = 0;
  // Works as ParcelSource::ReadParcel does. Unless it is overridden, it makes pages of what Read
  // gives. The calls of one source are all Read or all ReadParcel.
  virtual Result<ReadOutcome> ReadParcel(const ReadLimits& limits, ParcelBuilder* out);
  // Returns what it has read so far, if it counts that.
  virtual ReadCounters counters() const { return {}; }
};

// Opens the reader of a target.
using OpenTarget = std::unique_ptr<StreamReader> (*)(const StreamTarget&, const TimeRange&);
std::unique_ptr<StreamReader> OpenInOrder(const StreamTarget& target, const TimeRange& range);

// Reads target after target, in the order of the plan. `open` decides the order of messages within
// a target. A ScanImpl owns it.
class SequentialSource : public MessageSource {
 public:
  SequentialSource(std::vector<StreamTarget> targets, const TimeRange& range, OpenTarget open);
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;

 private:
  const std::vector<StreamTarget> targets_;
  const TimeRange range_;
  const OpenTarget open_;
  std::size_t next_target_ = 0;
  std::unique_ptr<StreamReader> reader_;
};

// Merges all streams by timestamp; messages with equal timestamps come in the order of the plan. A
// ScanImpl or an OverlaySource owns it. It holds one small page of each target, from the time at
// which the target's slab can have its first message. Between pages it keeps no RocksDB iterator
// open for targets of one stream, so that thousands of them are cheap.
class MergedSource : public MessageSource {
 public:
  MergedSource(std::vector<StreamTarget> targets, const TimeRange& range);
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;
  // Lets Read append the slab of each message to `slabs`, which must outlive the source.
  void NoteSlabs(std::vector<const Slab*>* slabs) { slabs_ = slabs; }

 private:
  // Where the read of one target is.
  struct Cursor {
    const StreamTarget* target;
    Position position;
    Batch page;
    std::size_t row = 0;
    bool exhausted = false;  // nothing comes after the page
    // Open while the cursor looks for the first message of the page. Stays open to the end if the
    // target has many streams.
    std::unique_ptr<StreamReader> reader;
    bool opened = false;
  };
  // The next message of a cursor.
  struct HeapItem {
    std::int64_t timestamp;
    std::size_t cursor;
    // Makes a std::priority_queue have the smallest item on top.
    bool operator<(const HeapItem& other) const {
      return std::pair(other.timestamp, other.cursor) < std::pair(timestamp, cursor);
    }
  };

  // Reads the cursor's next page, and puts the cursor on the heap if there is a message. Returns
  // kMore if it examined `examined_max` rows without finding one.
  Result<ReadOutcome> Refill(std::size_t index, const ReadLimits& limits, bool with_serials);

  const std::vector<StreamTarget> targets_;
  const TimeRange range_;
  const std::size_t page_rows_;
  const std::size_t page_bytes_;
  const std::size_t memory_bytes_;
  std::vector<Cursor> cursors_;
  std::vector<std::size_t> to_refill_;
  std::priority_queue<HeapItem> heap_;
  std::vector<const Slab*>* slabs_ = nullptr;  // null: nobody wants them
};

}  // namespace topicdb
