// The segment files of one directory, as one log: appended to at its end, freed from its beginning.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "segment/segment_recovery.h"
#include "segment/segment_writer.h"

namespace topicdb {

// Thread-safe. mutex_ is held while files are written, never while they are synced.
class SegmentLog {
 public:
  // Opens what is in the directory, which must exist. `known_end` spares reading the last segment
  // if that is as it was. Otherwise its frames are read, it is cut behind the last whole append,
  // and appends go to a new one. Numbers of items that are appended begin at `next_sequence`, which
  // must be greater than all there are. What is damaged is added to `damage`, and left out.
  static Result<std::unique_ptr<SegmentLog>> Open(const SegmentLogOptions& options,
                                                  const std::optional<LogEnd>& known_end,
                                                  std::uint64_t next_sequence,
                                                  std::vector<LogDamage>* damage);

  // Adds items; the number of the first. With `through`, they are the operating system's
  // afterwards. After an error nothing was appended.
  Result<std::uint64_t> Append(std::span<const std::string_view> items, bool through)
      TOPICDB_EXCLUDES(mutex_);
  Status WriteOut() TOPICDB_EXCLUDES(mutex_);
  // Makes everything safe from loss of power that was appended before.
  Status Sync() TOPICDB_EXCLUDES(mutex_);
  // WriteOut, and gives back space. Where the log ends.
  Result<LogEnd> Close() TOPICDB_EXCLUDES(mutex_);
  // Removes the segments all of whose items have smaller numbers.
  Status FreeBefore(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_) {
    return RemoveSegments(Detach(sequence));
  }
  // The two halves of that: they are no part of the log any more, and their files are removed,
  // which takes milliseconds each.
  std::vector<std::string> Detach(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_);
  static Status RemoveSegments(const std::vector<std::string>& paths);
  // Removes everything; numbers go on.
  Status Clear() TOPICDB_EXCLUDES(mutex_);

  // Numbers of items go on with this one, which must not be smaller than the next.
  Status SkipTo(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_);

  // The number of the first item, or of the next if there is none.
  std::uint64_t begin_sequence() const TOPICDB_EXCLUDES(mutex_);
  // FreeBefore does nothing for smaller numbers.
  std::uint64_t free_at() const { return free_at_.load(std::memory_order_acquire); }
  // The number of the next item.
  std::uint64_t end_sequence() const TOPICDB_EXCLUDES(mutex_);
  // Bytes of frames, and items, of everything that was in this log.
  std::uint64_t end_bytes() const TOPICDB_EXCLUDES(mutex_);
  std::uint64_t end_items() const TOPICDB_EXCLUDES(mutex_);
  std::vector<SegmentState> Segments() const TOPICDB_EXCLUDES(mutex_);
  // The first segment with an item of this number or a greater one; with what is buffered written
  // out. None if there is none.
  Result<std::optional<SegmentState>> Find(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_);
  const SegmentFormat& format() const { return *options_.format; }

 private:
  explicit SegmentLog(const SegmentLogOptions& options) : options_(options) {}

  Status StartSegment() TOPICDB_REQUIRES(mutex_);
  // Has a writer of a segment that is not full.
  Status PrepareWriter() TOPICDB_REQUIRES(mutex_);
  Status SealLast() TOPICDB_REQUIRES(mutex_);
  // Bytes of frames, and items, in all segments up to the last.
  std::uint64_t BytesAtEnd() const TOPICDB_REQUIRES(mutex_);
  std::uint64_t ItemsAtEnd() const TOPICDB_REQUIRES(mutex_);
  void UpdateFreeAt() TOPICDB_REQUIRES(mutex_);

  const SegmentLogOptions options_;
  mutable Mutex mutex_;
  std::vector<SegmentState> segments_ TOPICDB_GUARDED_BY(mutex_);     // by number
  std::unique_ptr<SegmentWriter> writer_ TOPICDB_GUARDED_BY(mutex_);  // of the last, unless sealed
  std::vector<std::shared_ptr<File>> unsynced_ TOPICDB_GUARDED_BY(mutex_);  // sealed ones
  std::uint64_t next_sequence_ TOPICDB_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_number_ TOPICDB_GUARDED_BY(mutex_) = 1;
  std::uint64_t previous_end_ TOPICDB_GUARDED_BY(mutex_) = 1;  // of the last that was there
  bool directory_unsynced_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t freed_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t freed_items_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> free_at_{UINT64_MAX};
};

}  // namespace topicdb
