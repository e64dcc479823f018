// The segment files of one directory as one log, which grows at its end and is freed from its
// beginning.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
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

// How many segment files a log has, and their bytes up to the end of the last item of each.
struct LogFiles {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

// Appends items to the segment files of a directory, and frees whole segments. A DiskLog owns it.
// Thread-safe. mutex_ is held while files are written, but never while they are synced.
class SegmentLog {
 public:
  // Opens the segments in the directory, which must exist. If the last segment still ends at
  // `known_end`, Open does not read its frames. Otherwise it reads them, cuts the segment behind
  // its last whole append, and appends go to a new segment. The numbers of new items begin at
  // `next_sequence`, which must be greater than all there are. Adds what is damaged to `damage`,
  // and leaves it out.
  static Result<std::unique_ptr<SegmentLog>> Open(const SegmentLogOptions& options,
                                                  const std::optional<LogEnd>& known_end,
                                                  std::uint64_t next_sequence,
                                                  std::vector<LogDamage>* damage);

  // Appends items, which must have weights if the options say so, and returns the number of the
  // first. With `through`, hands them to the operating system before it returns. After an error,
  // nothing was appended.
  Result<std::uint64_t> Append(const WeighedItems& items, bool through) TOPICDB_EXCLUDES(mutex_);
  // Hands what is buffered to the operating system.
  Status WriteOut() TOPICDB_EXCLUDES(mutex_);
  // Makes everything that was appended before the call safe from loss of power. Returns kStorage if
  // an fsync fails, and if the segment that grows is not in place any more.
  Status Sync() TOPICDB_EXCLUDES(mutex_);
  // Writes out what is buffered, gives back unused space, and returns where the log ends.
  Result<LogEnd> Close() TOPICDB_EXCLUDES(mutex_);
  // Removes the sealed segments that have only items with smaller numbers.
  Status FreeBefore(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_) {
    return RemoveSegments(Detach(sequence));
  }
  // The two halves of FreeBefore. Detach takes the segments out of the log and returns their paths,
  // or takes none if the directory is not in place. RemoveSegments removes the files, which takes
  // milliseconds for each.
  std::vector<std::string> Detach(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_);
  static Status RemoveSegments(const std::vector<std::string>& paths);
  // Removes everything. The numbers of items continue.
  Status Clear() TOPICDB_EXCLUDES(mutex_);

  // Makes the numbers of items continue with this one. Begins another segment for them, unless it
  // is the next number anyway. Returns kStorage if it is smaller than that.
  Status SkipTo(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_);

  // Returns the number of the first item, or of the next if there is none.
  std::uint64_t begin_sequence() const TOPICDB_EXCLUDES(mutex_);
  // FreeBefore does nothing for numbers that are smaller than this.
  std::uint64_t free_at() const { return free_at_.load(std::memory_order_acquire); }
  // Returns the number of the next item.
  std::uint64_t end_sequence() const TOPICDB_EXCLUDES(mutex_);
  // Return the weight (SegmentEnd::weight), and the items, of everything that was in this log.
  std::uint64_t end_weight() const TOPICDB_EXCLUDES(mutex_);
  std::uint64_t end_items() const TOPICDB_EXCLUDES(mutex_);
  // Returns the segments as they are now, by number.
  std::vector<SegmentState> Segments() const TOPICDB_EXCLUDES(mutex_);
  LogFiles CountFiles() const TOPICDB_EXCLUDES(mutex_);
  // Returns how many sealed files stay open until Sync has covered them: an error of the file
  // system reaches only a file that was open when it happened.
  std::size_t files_to_sync() const { return files_to_sync_.load(std::memory_order_relaxed); }
  // Returns the first segment with an item of this number or a greater one, or nothing if there is
  // none. Writes out what is buffered for that segment.
  Result<std::optional<SegmentState>> Find(std::uint64_t sequence) TOPICDB_EXCLUDES(mutex_);
  const SegmentFormat& format() const { return *options_.format; }
  std::uint64_t segment_bytes() const { return options_.segment_bytes; }

 private:
  // The files of sealed segments that may hold bytes that no fsync has covered, by number. A file
  // of an earlier process is null: it is opened to be synced.
  using UnsyncedFiles = std::map<std::uint64_t, std::shared_ptr<File>>;

  explicit SegmentLog(const SegmentLogOptions& options) : options_(options) {}

  // Returns OK if the directory is the one that was opened; see SegmentLogOptions::place.
  Status CheckInPlace() const {
    return options_.place.has_value() ? options_.place->CheckInPlace() : Status::Ok();
  }
  // Begins a new segment file. REQUIRES: writer_ is null
  Status StartSegment() TOPICDB_REQUIRES(mutex_);
  // Makes writer_ the writer of a segment that is not full.
  Status PrepareWriter() TOPICDB_REQUIRES(mutex_);
  // Ends the last segment, so that it can be freed as a whole. REQUIRES: writer_ is not null
  Status SealLast() TOPICDB_REQUIRES(mutex_);
  // Syncs a file of UnsyncedFiles. Takes no lock.
  Status SyncSealed(std::uint64_t number, const File* file) const;
  // Return the weight and the items up to the end of the last segment.
  std::uint64_t WeightAtEnd() const TOPICDB_REQUIRES(mutex_);
  std::uint64_t ItemsAtEnd() const TOPICDB_REQUIRES(mutex_);
  // Sets free_at_ after the first segment has changed.
  void UpdateFreeAt() TOPICDB_REQUIRES(mutex_);
  // Takes a file out of unsynced_, and returns where the next one is.
  UnsyncedFiles::iterator Forget(UnsyncedFiles::iterator file) TOPICDB_REQUIRES(mutex_);

  const SegmentLogOptions options_;
  mutable Mutex mutex_;
  std::deque<SegmentState> segments_ TOPICDB_GUARDED_BY(mutex_);      // by number
  std::unique_ptr<SegmentWriter> writer_ TOPICDB_GUARDED_BY(mutex_);  // of the last, unless sealed
  UnsyncedFiles unsynced_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t next_sequence_ TOPICDB_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_number_ TOPICDB_GUARDED_BY(mutex_) = 1;
  std::uint64_t previous_end_ TOPICDB_GUARDED_BY(mutex_) = 1;  // the number after the last item
  // The directory was synced after all segments with smaller numbers were made.
  std::uint64_t names_synced_before_ TOPICDB_GUARDED_BY(mutex_) = 1;
  std::uint64_t freed_weight_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t freed_items_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> free_at_{UINT64_MAX};
  std::atomic<std::size_t> files_to_sync_{0};  // how many of unsynced_ are open
};

}  // namespace topicdb
