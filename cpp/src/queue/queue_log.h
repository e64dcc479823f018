// The items of a queue in the order of their numbers, wherever they are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "segment/segment_log.h"
#include "segment/segment_reader.h"
#include "topicdb/status.h"

namespace topicdb {

// Where the next item of a reader is. What is 0 is not known, and found out by reading.
struct LogPosition {
  std::uint64_t sequence = 0;  // of the item; always known
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;          // of the frame that holds the item, in its segment
  std::uint64_t frame_sequence = 0;  // of the first item of that frame
};

// How much there is before a place in a log, in bytes of frames and in items; what was freed
// counts.
struct LogCount {
  std::uint64_t bytes = 0;
  std::uint64_t items = 0;
};

// Reads frames. Not thread-safe, but may be used while the log is appended to and freed.
class QueueLogReader {
 public:
  QueueLogReader() = default;
  virtual ~QueueLogReader() = default;
  QueueLogReader(const QueueLogReader&) = delete;
  QueueLogReader& operator=(const QueueLogReader&) = delete;

  // Makes the first frame with an item at `position` or behind it current. kBlock: block() is that.
  // kLost: lost() says which items from there on cannot be read; to be called again behind them.
  // kEnd: there is nothing yet.
  virtual Result<ReadEvent> Load(const LogPosition& position) = 0;

  virtual const Block& block() const = 0;
  virtual const std::shared_ptr<const void>& owner()
      const = 0;                              // of the bytes of the block's items
  virtual std::uint64_t segment() const = 0;  // of the block
  virtual LogCount count_before() const = 0;  // of the block
  virtual const LogDamage& lost() const = 0;
};

// Thread-safe.
class QueueLog {
 public:
  QueueLog() = default;
  virtual ~QueueLog() = default;
  QueueLog(const QueueLog&) = delete;
  QueueLog& operator=(const QueueLog&) = delete;

  // Adds items; the number of the first. After an error nothing was added.
  virtual Result<std::uint64_t> Append(std::span<const std::string_view> items, bool through) = 0;
  virtual std::uint64_t begin_sequence() const = 0;  // of the oldest item, or end_sequence()
  virtual std::uint64_t end_sequence() const = 0;
  // FreeBefore does nothing for smaller numbers.
  virtual std::uint64_t free_at() const = 0;
  virtual LogCount end_count() const = 0;
  virtual std::unique_ptr<QueueLogReader> NewReader() = 0;
  // Forgets items that have smaller numbers, as far as it can.
  virtual Status FreeBefore(std::uint64_t sequence) = 0;
  // What one item takes, without the header of its frame.
  virtual std::uint64_t ItemBytes(std::string_view item) const = 0;
};

// On disk.
class DiskLog : public QueueLog {
 public:
  explicit DiskLog(std::unique_ptr<SegmentLog> segments) : segments_(std::move(segments)) {}

  Result<std::uint64_t> Append(std::span<const std::string_view> items, bool through) override {
    return segments_->Append(items, through);
  }
  std::uint64_t begin_sequence() const override { return segments_->begin_sequence(); }
  std::uint64_t end_sequence() const override { return segments_->end_sequence(); }
  std::uint64_t free_at() const override { return segments_->free_at(); }
  LogCount end_count() const override { return {segments_->end_bytes(), segments_->end_items()}; }
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
