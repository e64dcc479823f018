// The log of a queue: its items in the order of their numbers, in memory or on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "segment/segment_log.h"
#include "segment/segment_reader.h"
#include "topicdb/status.h"

namespace topicdb {

// Where the next item of a reader is. A field that is 0 is not known; the reader finds it out.
struct LogPosition {
  std::uint64_t sequence = 0;  // of the item; always known
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;          // of the frame that holds the item, in its segment
  std::uint64_t frame_sequence = 0;  // of the first item of that frame
};

// How much there is before a place in a log, including what was freed. The bytes are those that
// count for the limits of a queue: the weights of items, or of items without weights the bytes of
// their frames.
struct LogCount {
  std::uint64_t bytes = 0;
  std::uint64_t items = 0;
};

// Reads the frames of a log, which must outlive it. The caller of NewReader owns it. Not
// thread-safe, but other threads may append to the log and free parts of it meanwhile.
class QueueLogReader {
 public:
  QueueLogReader() = default;
  virtual ~QueueLogReader() = default;
  QueueLogReader(const QueueLogReader&) = delete;
  QueueLogReader& operator=(const QueueLogReader&) = delete;

  // Loads the first frame that has an item at `position` or behind it. Returns kBlock if there is
  // one, which block() returns. Returns kLost if items from there on cannot be read: lost() says
  // which, and the caller must call Load again with a position behind them. Returns kEnd if there
  // is nothing yet.
  virtual Result<ReadEvent> Load(const LogPosition& position) = 0;

  virtual const Block& block() const = 0;
  // Keeps the bytes of the block's items alive.
  virtual const std::shared_ptr<const void>& owner() const = 0;
  virtual std::uint64_t segment() const = 0;  // the number of the segment that has the block
  virtual LogCount count_before() const = 0;  // what is before the block in the log
  virtual const LogDamage& lost() const = 0;
};

// Keeps the items of a queue, and gives them numbers. The queue and its cursors share it.
// Thread-safe.
class QueueLog {
 public:
  QueueLog() = default;
  virtual ~QueueLog() = default;
  QueueLog(const QueueLog&) = delete;
  QueueLog& operator=(const QueueLog&) = delete;

  // Appends items and returns the number of the first. Either all items that are appended to a log
  // have weights, or none. With `through`, a log on disk hands them to the operating system before
  // it returns. After an error, nothing was appended.
  virtual Result<std::uint64_t> Append(const WeighedItems& items, bool through) = 0;
  virtual std::uint64_t begin_sequence() const = 0;  // of the oldest item, or end_sequence()
  virtual std::uint64_t end_sequence() const = 0;    // of the next item
  // FreeBefore does nothing for numbers that are smaller than this.
  virtual std::uint64_t free_at() const = 0;
  // Returns how much there is before the next item.
  virtual LogCount end_count() const = 0;
  // Returns a reader, which must not outlive the log.
  virtual std::unique_ptr<QueueLogReader> NewReader() = 0;
  // Frees the items that have smaller numbers, as far as the log can.
  virtual Status FreeBefore(std::uint64_t sequence) = 0;
  // Returns what an item without a weight counts for the limits, apart from the header of its
  // frame: its stored bytes.
  virtual std::uint64_t ItemBytes(std::string_view item) const = 0;
};

// A log in segment files. The queue also shares it with the calls that fsync it. Thread-safe.
class DiskLog : public QueueLog {
 public:
  explicit DiskLog(std::unique_ptr<SegmentLog> segments) : segments_(std::move(segments)) {}

  Result<std::uint64_t> Append(const WeighedItems& items, bool through) override {
    return segments_->Append(items, through);
  }
  std::uint64_t begin_sequence() const override { return segments_->begin_sequence(); }
  std::uint64_t end_sequence() const override { return segments_->end_sequence(); }
  std::uint64_t free_at() const override { return segments_->free_at(); }
  LogCount end_count() const override { return {segments_->end_weight(), segments_->end_items()}; }
  std::unique_ptr<QueueLogReader> NewReader() override;
  Status FreeBefore(std::uint64_t sequence) override { return segments_->FreeBefore(sequence); }
  std::uint64_t ItemBytes(std::string_view item) const override {
    return segments_->format().ItemBytes(item);
  }
  SegmentLog& segments() { return *segments_; }

 private:
  const std::unique_ptr<SegmentLog> segments_;
};

}  // namespace topicdb
